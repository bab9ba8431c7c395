import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { messages } from '#ssh/messages.ts'
import { message } from '#ssh/wire.ts'
import { without } from '../support/programs.ts'
import { type Service, startServiceWithSsh } from '../support/service.ts'
import { connectAsAnonymous } from '../support/ssh-login.ts'
import { createSshUser, run, type SshUser } from '../support/ssh-user.ts'

let service: Service
let ada: SshUser

before(async () => {
  service = await startServiceWithSsh({ env: { SVC_SSH_ANONYMOUS_READ: 'true' } })
})

after(() => service[Symbol.asyncDispose]())

describe('requests of OpenSSH beyond commands', { skip: without('openssh') }, () => {
  before(async () => {
    ada = await createSshUser(service, await service.client({ username: 'ada' }))
  })

  after(() => ada[Symbol.asyncDispose]())

  test('sftp and scp are rejected', async () => {
    const subsystem = await ada.ssh('sftp', '-s')
    assert.deepEqual([subsystem.exitCode, subsystem.stdout], [255, ''])
    assert.match(subsystem.stderr, /subsystem request failed/)
    const target = `scp://svc@127.0.0.1:${service.sshPort}/x`
    const [, ...options] = ada.command.split(' ')
    for (const way of [[], ['-O']]) {
      const copied = await run('scp', [...way, ...options, join(ada.folder, 'key.pub'), target])
      assert.notEqual(copied.exitCode, 0)
    }
  })

  test('variables other than GIT_PROTOCOL are ignored', async () => {
    const variables = [
      'FOO=bar',
      'LANG=x',
      'GIT_TRACE=1',
      'GIT_DIR=/tmp',
      'PATH=/tmp',
      'git_protocol=version=2',
    ]
    const option = ['-o', `SetEnv=${variables.join(' ')}`]
    assert.equal((await ada.ssh('whoami', ...option)).stderr, '')
    await service.admin.post('/repos', { name: 'shown' })
    await using anonymous = await createSshUser(service, undefined, { user: 'anonymous' })
    const offer = await anonymous.ssh("git-upload-pack '/shown.git'", ...option)
    // Newer versions of Git advertise capabilities without refs, too.
    assert.match(offer.stdout, /^(?:[0-9a-f]{4}0{40,64} capabilities\^\{\}[^\n]*\n)?0000$/)
    assert.equal(offer.stderr, '')
  })

  test('connections are not forwarded in either direction', async () => {
    const target = createServer((socket) => socket.end('reached')).listen(0, '127.0.0.1')
    await once(target, 'listening')
    const { port } = target.address() as AddressInfo
    const through = await ada.ssh('', '-W', `127.0.0.1:${port}`)
    assert.deepEqual([through.exitCode, through.stdout], [255, ''])
    assert.match(through.stderr, /administratively prohibited: Forwarding is not supported/)
    const back = await ada.ssh('whoami', '-R', `0:127.0.0.1:${port}`)
    assert.match(back.stderr, /remote port forwarding failed|remote forward/)
    const strict = await ada.ssh('whoami', '-R', '0:127.0.0.1:9', '-o', 'ExitOnForwardFailure=yes')
    assert.equal(strict.exitCode, 255)
    target.close()
  })
})

const sessionRequests = [
  'subsystem',
  'x11-req',
  'auth-agent-req@openssh.com',
  'window-change',
  'signal',
  'break',
  'xon-xoff',
  'eow@openssh.com',
  '',
]

test('a channel supports only exec, shell, a terminal and one variable', async () => {
  const client = await connectAsAnonymous(service.sshPort)
  const channel = await client.openSession()
  for (const type of sessionRequests) {
    client.send(message(messages.channelRequest, channel, type, true, 'x', 'x', 'x', 'x'))
    const answer = await client.next(messages.channelSuccess, messages.channelFailure)
    assert.equal(answer?.[0], messages.channelFailure, type)
  }
  for (const [name, value, expected] of [
    ['GIT_PROTOCOL', 'version=2', messages.channelSuccess],
    ['GIT_PROTOCOL', 'x'.repeat(257), messages.channelFailure],
    ['GIT_PROTOCOL ', 'version=2', messages.channelFailure],
    ['LD_PRELOAD', '/tmp/x', messages.channelFailure],
  ] as const) {
    client.send(message(messages.channelRequest, channel, 'env', true, name, value))
    const answer = await client.next(messages.channelSuccess, messages.channelFailure)
    assert.equal(answer?.[0], expected, name)
  }
  client.send(message(messages.channelRequest, channel, 'exec', true, 'whoami'))
  assert.ok(await client.next(messages.channelSuccess))
  client.socket.destroy()
})

test('only session channels are supported, and no global requests', async () => {
  const client = await connectAsAnonymous(service.sshPort)
  for (const [type, reason] of [
    ['direct-tcpip', 1],
    ['direct-streamlocal@openssh.com', 1],
    ['forwarded-tcpip', 1],
    ['x11', 1],
    ['tun@openssh.com', 3],
    ['auth-agent@openssh.com', 3],
    ['SESSION', 3],
  ] as const) {
    client.send(message(messages.channelOpen, type, 7, 2 ** 21, 32_768, 'localhost', 80, 'x', 1))
    const answer = await client.next(messages.channelOpenFailure, messages.channelOpenConfirmation)
    assert.deepEqual(
      [answer?.[0], answer?.readUInt32BE(5)],
      [messages.channelOpenFailure, reason],
      type,
    )
  }
  for (const type of ['tcpip-forward', 'cancel-tcpip-forward', 'keepalive@openssh.com', 'x']) {
    client.send(message(messages.globalRequest, type, true, '127.0.0.1', 0))
    assert.ok(await client.next(messages.requestFailure), type)
  }
  // One that wants no answer gets none.
  client.send(message(messages.globalRequest, 'no-more-sessions@openssh.com', false))
  await client.openSession()
  client.socket.destroy()
})

test('a second command on a channel is rejected, and the first one continues', async () => {
  const client = await connectAsAnonymous(service.sshPort)
  const channel = await client.openSession()
  await service.admin.post('/repos', { name: 'busy' })
  client.send(message(messages.channelRequest, channel, 'exec', true, 'git-upload-pack busy'))
  assert.ok(await client.next(messages.channelSuccess))
  for (const [type, ...words] of [['exec', 'whoami'], ['shell']] as const) {
    client.send(message(messages.channelRequest, channel, type, true, ...words))
    assert.ok(await client.next(messages.channelFailure), type)
  }
  assert.match(String(await client.next(messages.channelData)), /capabilities|0000$/)
  client.send(message(messages.channelData, channel, Buffer.from('0000')))
  assert.match(String(await client.next(messages.channelRequest)), /exit-status/)
  client.send(message(messages.channelRequest, channel, 'exec', true, 'whoami'))
  assert.ok(await client.next(messages.channelFailure))
  client.socket.destroy()
})
