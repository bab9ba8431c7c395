import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { test } from 'node:test'
import { flushPacket, packet } from '#git/protocol/pkt-line.ts'
import { messages } from '#ssh/messages.ts'
import { message } from '#ssh/wire.ts'
import { until } from '../support/condition.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { createProject, git } from '../support/git.ts'
import { leftoversIn, untilTidy } from '../support/leftovers.ts'
import {
  commandOf,
  processesIn,
  signal,
  sshProcessesOf,
  sshProcessOf,
} from '../support/processes.ts'
import { without } from '../support/programs.ts'
import { openPushRecords } from '../support/push-records.ts'
import { letIn } from '../support/raw-ssh.ts'
import { startServiceWithSsh } from '../support/service.ts'
import { execute } from '../support/ssh-login.ts'
import { createSshUser } from '../support/ssh-user.ts'

const skip = without('openssh')
const pushes = 24

test('the SSH process starts with the first client, and serves all that came meanwhile', async () => {
  await using service = await startServiceWithSsh({ env: { SVC_SSH_ANONYMOUS_READ: 'true' } })
  assert.deepEqual(sshProcessesOf(service), [])
  assert.match(
    (await service.admin.get('/metrics')).text,
    /^svc_git_processes\{process="ssh"\} 0$/m,
  )
  const clients = await Promise.all(Array.from({ length: 16 }, () => letIn(service.sshPort)))
  assert.equal(sshProcessesOf(service).length, 1)
  clients.push(await letIn(service.sshPort))
  const greetings = await Promise.all(clients.map((client) => execute(client, 'whoami')))
  for (const greeting of greetings) assert.match(greeting, /anonymous/)
  // Also those that the main process has accepted are the SSH process's, which disconnects them.
  assert.equal(await service.end('SIGTERM'), 0)
  for (const client of clients) assert.ok(await client.next(messages.disconnect))
})

test('a service that is stopped before its first SSH client closes the port', async () => {
  await using service = await startServiceWithSsh()
  assert.equal(await service.end('SIGTERM'), 0)
  const socket = connect(service.sshPort, '127.0.0.1')
  await assert.rejects(once(socket, 'connect'), { code: 'ECONNREFUSED' })
})

test('a killed SSH process is started again, and its pushes are finalized', {
  skip,
}, async () => {
  await using service = await startServiceWithSsh()
  await service.admin.post('/repos', { name: 'site' })
  await using user = await createSshUser(service, service.admin)
  await using project = await createProject()
  const head = await project.git('rev-parse', 'HEAD')
  assert.equal((await user.ssh('whoami')).exitCode, 0)
  const before = sshProcessOf(service)
  const acknowledged = new Set<string>()
  const pushing = Array.from({ length: pushes }, async (_, index) => {
    const ref = `refs/heads/branch-${index}`
    const { exitCode } = await user.tryGit(project.path, 'push', user.remote('site'), `HEAD:${ref}`)
    if (exitCode === 0) acknowledged.add(ref)
  })
  const isPushing = async () =>
    acknowledged.size > 0 || (await leftoversIn(service.dataDir)).length > 0
  await until('pushes are running', isPushing)
  signal(before, 'SIGKILL')
  await Promise.all(pushing)
  await until('there is another', async () => (await user.ssh('whoami')).exitCode === 0)
  assert.notEqual(sshProcessOf(service), before)
  await untilTidy(service.dataDir)

  await user.git(project.path, 'push', user.remote('site'), 'HEAD:refs/heads/later')
  const listed = (await git('/', ['ls-remote', service.admin.remote('site')])).stdout.split('\n')
  const refs = listed.map((line) => line.split('\t')[1]).filter((ref) => ref !== 'HEAD')
  for (const ref of acknowledged) assert.ok(refs.includes(ref), ref)
  using records = openPushRecords(service.dataDir)
  await until('every push is settled', () => records.unfinished().length === 0)
  const recorded = records.eventsAfter(0).pushes.map(({ ref }) => ref)
  assert.deepEqual(recorded.sort(), [...refs].sort())
  for (const { after } of records.eventsAfter(0).pushes) assert.equal(after, head)
})

test('the permits of a killed SSH process are released', exhaustive, async () => {
  const env = {
    SVC_SSH_ANONYMOUS_READ: 'true',
    SVC_FETCHES_AT_ONCE: '1',
    SVC_REPOSITORY_FETCHES_AT_ONCE: '1',
    SVC_GIT_WAITING: '0',
  }
  await using service = await startServiceWithSsh({ env })
  await service.admin.post('/repos', { name: 'site' })
  await using project = await createProject()
  await project.git('push', service.admin.remote('site'), 'HEAD:main')
  // A session of version 0 lasts, and has its turn, while its client wants something and does not say what it has.
  const client = await letIn(service.sshPort)
  await client.openSession()
  client.send(message(messages.channelRequest, 0, 'exec', true, "git-upload-pack '/site.git'"))
  await client.next(messages.channelData)
  const head = await project.git('rev-parse', 'HEAD')
  const want = Buffer.concat([packet(`want ${head}\n`), flushPacket])
  client.send(message(messages.channelData, 0, want))
  const clone = () =>
    project.git('clone', '--quiet', '--bare', service.admin.remote('site'), 'copy')
  await until('git serves it', () => processesIn(service.dataDir).length > 0)
  await assert.rejects(clone(), /HTTP 503/)
  signal(sshProcessOf(service), 'SIGKILL')
  await client.closed
  await until('a clone over the other transport has its turn', () =>
    clone().then(
      () => true,
      () => false,
    ),
  )
})

test('the SSH process ends with a killed server, and its port is free at once', {
  skip,
}, async () => {
  await using first = await startServiceWithSsh()
  await using user = await createSshUser(first, first.admin)
  assert.equal((await user.ssh('whoami')).exitCode, 0)
  const child = sshProcessOf(first)
  await first.end('SIGKILL')
  const env = { SVC_SSH_PORT: String(first.sshPort), SVC_ADMIN_TOKEN: first.adminToken }
  await using second = await startServiceWithSsh({ dataDir: first.dataDir, env })
  assert.equal(second.sshPort, first.sshPort)
  assert.equal((await user.ssh('whoami')).exitCode, 0)
  await until('the first is gone', () => commandOf(child) === '')
})

test('an SSH process that hangs does not keep the service from stopping', {
  ...exhaustive,
  skip,
}, async () => {
  await using service = await startServiceWithSsh({ env: { SVC_STOP_SECONDS: '1' } })
  await service.admin.post('/repos', { name: 'site' })
  await using user = await createSshUser(service, service.admin)
  await using project = await createProject()
  const refs = Array.from({ length: 8 }, (_, index) => `HEAD:refs/heads/${index}`)
  const push = (ref: string) => user.tryGit(project.path, 'push', user.remote('site'), ref)
  const pushing = refs.map(push)
  await until('a push is running', async () => (await leftoversIn(service.dataDir)).length > 0)
  signal(sshProcessOf(service), 'SIGSTOP')
  assert.equal(await service.end('SIGTERM'), 0)
  await Promise.all(pushing)
  assert.deepEqual(processesIn(service.dataDir), [])
  using records = openPushRecords(service.dataDir)
  assert.deepEqual(records.unfinished(), [])
})

test('a signal to all processes of the service stops it as one to the main process does', {
  ...exhaustive,
  skip,
}, async () => {
  await using service = await startServiceWithSsh()
  await using user = await createSshUser(service, service.admin)
  assert.equal((await user.ssh('whoami')).exitCode, 0)
  const child = sshProcessOf(service)
  signal(child, 'SIGTERM')
  signal(child, 'SIGINT')
  assert.equal(await service.end('SIGTERM'), 0)
  assert.equal(commandOf(child), '')
  assert.doesNotMatch(service.log(), /restarting/)
})
