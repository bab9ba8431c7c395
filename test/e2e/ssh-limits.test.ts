import assert from 'node:assert/strict'
import { generateKeyPairSync } from 'node:crypto'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { after, before, test } from 'node:test'
import { messages } from '#ssh/messages.ts'
import { message } from '#ssh/wire.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { temporaryFolder } from '../support/git.ts'
import { listenersOf } from '../support/listeners.ts'
import { userauthRequest } from '../support/raw-ssh.ts'
import { type Service, startServiceWithSsh } from '../support/service.ts'
import { attempt, connectAsAnonymous, connectToLogin } from '../support/ssh-login.ts'

const start = (env: Record<string, string>) =>
  startServiceWithSsh({ env: { SVC_SSH_ANONYMOUS_READ: 'true', ...env } })

/** With several limits, each of which one test exceeds. */
let limited: Service

before(async () => {
  limited = await start({
    SVC_SSH_LOGIN_TRIES: '3',
    SVC_SSH_UNAUTHENTICATED_PER_ADDRESS: '2',
    SVC_SSH_CONNECTIONS: '8',
  })
})

after(() => limited[Symbol.asyncDispose]())

test('a client that does not authenticate in time is disconnected', exhaustive, async () => {
  await using service = await start({ SVC_SSH_LOGIN_SECONDS: '5' })
  const inTime = await connectAsAnonymous(service.sshPort)
  const startedAt = performance.now()
  const silent = connect(service.sshPort, '127.0.0.1')
  const half = await connectToLogin(service.sshPort)
  half.send(userauthRequest('svc', generateKeyPairSync('ed25519').publicKey))
  assert.match(await text(silent), /^SSH-2\.0-svc/)
  assert.match(String(await half.next(messages.disconnect)), /Authentication took too long/)
  await half.closed
  assert.ok(performance.now() - startedAt > 4900)
  await inTime.openSession()
  inTime.socket.destroy()
})

test('a client is disconnected after too many rejected keys', async () => {
  const client = await connectToLogin(limited.sshPort)
  const inVain = () => userauthRequest('svc', generateKeyPairSync('ed25519').publicKey)
  // To learn what there is costs nothing.
  const question = message(messages.userauthRequest, 'svc', 'ssh-connection', 'none')
  const password = message(
    messages.userauthRequest,
    'svc',
    'ssh-connection',
    'password',
    false,
    'x',
  )
  const answers: (string | undefined)[] = []
  for (const request of [question, inVain(), password, inVain()]) {
    answers.push(await attempt(client, request))
  }
  assert.deepEqual(answers, ['refused', 'refused', 'refused', 'disconnected'])
  await client.closed
})

const refusal = /^SSH-2\.0-svc\r\n.*Too many connections; try again in a moment/s

test('the unauthenticated connections of an address are limited; others wait', async () => {
  const first = await connectToLogin(limited.sshPort)
  const second = await open(limited)
  assert.match(await text(connect(limited.sshPort, '127.0.0.1')), refusal)
  const elsewhere = await open(limited, '127.0.0.2')
  // Authenticated and closed connections no longer count.
  const third = open(limited)
  const fourth = open(limited)
  await attempt(first, message(messages.userauthRequest, 'anonymous', 'ssh-connection', 'none'))
  await third
  await leave(second)
  await fourth
  await first.openSession()
  await Promise.all([first.socket, elsewhere, await third, await fourth].map(leave))
})

test('with too many unauthenticated connections in total, the oldest is closed', async () => {
  await using service = await start({ SVC_SSH_UNAUTHENTICATED: '2' })
  const oldest = await open(service, '127.0.0.2')
  const sentAway = text(oldest)
  const other = await open(service, '127.0.0.3')
  const known = await connectAsAnonymous(service.sshPort)
  assert.match(await sentAway, /Too many clients are authenticating/)
  await known.openSession()
  const another = await open(service)
  for (const one of [other, known.socket, another]) one.destroy()
})

test('the number of connections is limited', async () => {
  const hosts = [1, 2, 3, 4, 5, 6, 7, 8].map((host) => `127.0.0.${host}`)
  const all = await Promise.all(hosts.map((host) => connectAsAnonymous(limited.sshPort, host)))
  const another = await connectAsAnonymous(limited.sshPort, '127.0.0.9')
  assert.match(String(await another.next(messages.disconnect)), /Too many connections; try again/)
  // Those that only wait to be known take nothing from those that are.
  const silent = await open(limited, '127.0.0.10')
  for (const one of all) await one.openSession()
  await Promise.all([...all.map(({ socket }) => socket), silent].map(leave))
})

test('a user may have at most a quarter of all connections', async () => {
  const first = await connectAsAnonymous(limited.sshPort)
  const second = await connectAsAnonymous(limited.sshPort)
  const third = await connectAsAnonymous(limited.sshPort)
  assert.match(String(await third.next(messages.disconnect)), /You have too many connections/)
  await first.openSession()
  await leave(first.socket)
  const fourth = await connectAsAnonymous(limited.sshPort)
  await fourth.openSession()
  await Promise.all([second, fourth].map(({ socket }) => leave(socket)))
})

test('an idle connection is closed, one with a running clone is not', exhaustive, async () => {
  await using service = await start({ SVC_SSH_IDLE_SECONDS: '5' })
  await service.admin.post('/repos', { name: 'site' })
  const busy = await connectAsAnonymous(service.sshPort)
  const channel = await busy.openSession()
  busy.send(message(messages.channelRequest, channel, 'exec', true, 'git-upload-pack site'))
  assert.match(String(await busy.next(messages.channelData)), /0000$/)
  // Each was opened after the last one was closed, so both have been idle for that long.
  for (let times = 0; times < 2; times++) {
    const idle = await connectAsAnonymous(service.sshPort)
    if (times > 0) await idle.openSession()
    assert.match(String(await idle.next(messages.disconnect)), /idle for too long/)
    await idle.closed
  }
  busy.send(message(messages.channelData, channel, Buffer.from('0000')))
  assert.match(String(await busy.next(messages.channelRequest)), /exit-status/)
  // It counts from when the last command ended.
  assert.match(String(await busy.next(messages.disconnect)), /idle for too long/)
})

test('SVC_SSH_PORT=off disables SSH', async () => {
  await using service = await startServiceWithSsh({ env: { SVC_SSH_PORT: 'off' } })
  assert.equal(listenersOf(limited.pid), 2)
  assert.equal(service.ssh, '')
  const { body } = await service.admin.post('/repos', { name: 'site' })
  assert.equal(body.cloneUrls.ssh, null)
  assert.equal(listenersOf(service.pid), 1)
})

test('a port in use stops the start with one line of advice', async () => {
  await using folder = await temporaryFolder()
  const env = { SVC_SSH_PORT: String(limited.sshPort) }
  const line =
    `svc: SVC_SSH_HOST, SVC_SSH_PORT: cannot listen on 127.0.0.1, port ${limited.sshPort}: ` +
    'the port is in use; choose others, or SVC_SSH_PORT=off.'
  await assert.rejects(startServiceWithSsh({ env, dataDir: folder.path }), ({ message: log }) =>
    log.split('\n').includes(line),
  )
})

/** A connection that says nothing, once the server has spoken. */
async function open(service: Service, from = '127.0.0.1'): Promise<Socket> {
  const socket = connect({ port: service.sshPort, host: '127.0.0.1', localAddress: from })
  const [heading] = await once(socket, 'data')
  assert.match(String(heading), /^SSH-2\.0-svc/)
  return socket
}

async function leave(socket: Socket): Promise<void> {
  socket.resume()
  const closed = once(socket, 'close')
  socket.end()
  await closed
}
