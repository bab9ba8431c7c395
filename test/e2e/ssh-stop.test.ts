import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { messages } from '#ssh/messages.ts'
import { message } from '#ssh/wire.ts'
import { until } from '../support/condition.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { git, temporaryFolder } from '../support/git.ts'
import { leftoversIn } from '../support/leftovers.ts'
import { commandOf, nodesOf, processesIn, signal } from '../support/processes.ts'
import { without } from '../support/programs.ts'
import { openPushRecords } from '../support/push-records.ts'
import { cloneBody, pushBody } from '../support/raw-git.ts'
import { startServiceWithSsh } from '../support/service.ts'
import { createLargeProject, execRequest, type SshSite, startSshSite } from '../support/ssh-site.ts'

const mib = 1024 * 1024
const skip = without('openssh')
const patient = { SVC_STOP_SECONDS: '3600' }

test('SIGTERM lets a running clone and push over SSH finish, and nothing new start', {
  skip,
}, async () => {
  await using site = await startSshSite({ env: patient })
  const { service } = site
  const idle = await site.connect()
  const clone = await startClone(site)
  const push = await startPush(site)
  signal(service.pid, 'SIGTERM')
  assert.ok(await idle.next(messages.disconnect))
  await idle.closed
  await until('new connections are refused', () => isRefused(service.sshPort))
  push.client.send(message(messages.channelData, push.channel, push.rest))
  assert.match(String(await push.client.next(messages.channelData)), /ok refs\/heads\/topic/)
  assert.equal(await exitCodeOf(push.client), 0)
  push.client.send(message(messages.channelClose, push.channel))
  clone.client.send(message(messages.channelWindowAdjust, clone.channel, 2 ** 31))
  assert.equal(await exitCodeOf(clone.client), 0)
  clone.client.send(message(messages.channelClose, clone.channel))
  assert.equal(await service.end('SIGCONT'), 0)
  assert.deepEqual(processesIn(service.dataDir), [])
})

test('a clone of git that runs during SIGTERM succeeds', { skip }, async () => {
  await using site = await startSshSite({ env: patient })
  const { service } = site
  await using project = await createLargeProject(20 * mib)
  await site.git(project.path, ['push', '--quiet', site.remote(), 'HEAD:main'])
  const clone = site.git('/', ['clone', '--quiet', '--bare', site.remote(), site.newFolder()])
  const working = await until('its git is at work', () =>
    processesIn(service.dataDir).find((pid) => /upload-pack/.test(commandOf(pid))),
  )
  signal(working, 'SIGSTOP')
  signal(service.pid, 'SIGTERM')
  await until('the server is stopping', () => /"stopping; /.test(service.log()))
  signal(working, 'SIGCONT')
  await clone
  assert.equal(await service.end('SIGCONT'), 0)
})

test('a stop waits for a client that has not read yet what was sent to it', { skip }, async () => {
  await using site = await startSshSite({ env: patient })
  const { service } = site
  const { client, channel } = await startClone(site)
  client.socket.pause()
  client.send(message(messages.channelWindowAdjust, channel, 2 ** 31))
  await until('all is sent', () => /"ssh command"/.test(service.log()))
  signal(service.pid, 'SIGTERM')
  await until('new connections are refused', () => isRefused(service.sshPort))
  client.socket.resume()
  assert.equal(await exitCodeOf(client), 0)
  assert.equal(service.hasEnded(), false)
  client.send(message(messages.channelClose, channel))
  assert.equal(await service.end('SIGCONT'), 0)
})

test('a second signal ends the server and SSH commands at once', {
  ...exhaustive,
  skip,
}, async () => {
  await using site = await startSshSite({ env: patient })
  const { service } = site
  await startClone(site)
  const servers = nodesOf(service.pid)
  signal(service.pid, 'SIGTERM')
  await until('the server is stopping', () => /"stopping; /.test(service.log()))
  assert.equal(await service.end('SIGTERM'), 143)
  await until('no git is left', () => processesIn(service.dataDir).length === 0)
  await until('no server is left', () => servers.every((pid) => !isAlive(pid)))
})

test('after a kill in the middle of pushes over SSH, the next start repairs everything', {
  ...exhaustive,
  skip,
}, async () => {
  await using folder = await temporaryFolder()
  const dataDir = join(folder.path, 'data')
  await using site = await startSshSite({ dataDir })
  const { service } = site
  const push = await startPush(site)
  await using project = await createLargeProject(1000)
  using records = openPushRecords(dataDir)
  const refs = Array.from({ length: 8 }, (_, number) => `refs/heads/${number}`)
  const pushes = refs.map((ref) =>
    site.git(project.path, ['push', '--quiet', site.remote(), `HEAD:${ref}`]).then(
      () => ref,
      () => undefined,
    ),
  )
  await until('a push is allowed', () => records.unfinished().length > 0)
  await service.end('SIGKILL')
  const acknowledged = (await Promise.all(pushes)).filter((ref) => ref !== undefined)
  await push.client.closed

  const env = { SVC_ADMIN_TOKEN: service.adminToken, SVC_SSH_PORT: String(service.sshPort) }
  await using again = await startServiceWithSsh({ dataDir, env })
  assert.equal(again.sshPort, service.sshPort)
  assert.deepEqual(processesIn(dataDir), [])
  assert.deepEqual(records.unfinished(), [])
  await until('nothing temporary is left', async () => (await leftoversIn(dataDir)).length === 0)
  const { stdout } = await site.git('/', ['ls-remote', site.remote(), 'refs/heads/*'])
  const there = stdout.split('\n').flatMap((line) => line.split('\t')[1] ?? [])
  const recorded = records.eventsAfter(0).pushes.map(({ ref }) => ref)
  assert.deepEqual(recorded.sort(), there.sort())
  for (const ref of acknowledged) assert.ok(there.includes(ref), `${ref} was acknowledged`)
  const { body } = await again.admin.get('/repos/site')
  await git('/', ['-c', 'safe.directory=*', '--git-dir', body.path, 'fsck', '--full', '--strict'])
})

/** Starts a clone whose client does not read its pack. */
async function startClone(site: SshSite) {
  await using project = await createLargeProject(mib)
  await project.git('push', '--quiet', site.service.admin.remote('site'), 'HEAD:main')
  const client = await site.connect()
  const channel = await client.openSession(1000)
  client.send(execRequest(channel, "git-upload-pack '/site.git'"))
  const body = cloneBody(await project.git('rev-parse', 'HEAD'))
  client.send(message(messages.channelData, channel, body))
  await until('git is at work', () => processesIn(site.service.dataDir).length > 0)
  return { client, channel }
}

/** Begins a push of which the end is missing. */
async function startPush(site: SshSite) {
  await using project = await createLargeProject(1000)
  // Git starts before a push of several refs has arrived.
  const body = await pushBody(project.path, 'topic', 'other')
  const client = await site.connect()
  const channel = await client.openSession()
  client.send(execRequest(channel, "git-receive-pack '/site.git'"))
  await client.next(messages.channelData)
  client.send(message(messages.channelData, channel, body.subarray(0, -10)))
  await until(
    'git takes the pack',
    async () => (await leftoversIn(site.service.dataDir)).length > 0,
  )
  return { client, channel, rest: body.subarray(-10) }
}

async function exitCodeOf(client: Awaited<ReturnType<SshSite['connect']>>) {
  for (;;) {
    const request = await client.next(messages.channelRequest)
    if (!request || request.includes('exit-status'))
      return request?.readUInt32BE(request.length - 4)
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

function isRefused(port: number): Promise<boolean> {
  const socket = connect({ host: '127.0.0.1', port })
  const { promise, resolve } = Promise.withResolvers<boolean>()
  socket.on('error', () => resolve(true)).on('connect', () => resolve(false))
  return promise.finally(() => socket.destroy())
}
