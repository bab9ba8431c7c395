import assert from 'node:assert/strict'
import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import { after, before, test } from 'node:test'
import { messages } from '#ssh/messages.ts'
import { message, writeString } from '#ssh/wire.ts'
import { until } from '../support/condition.ts'
import { createProject } from '../support/git.ts'
import { pushBody } from '../support/raw-git.ts'
import { type RawSsh, toBlob, toLine, userauthRequest } from '../support/raw-ssh.ts'
import { type Service, startServiceWithSsh } from '../support/service.ts'
import { securityKeys, signWithSecurityKey, toLine as toKeyLine } from '../support/ssh-keys.ts'
import { attempt, connectToLogin, execute, loginRequest, toBeSigned } from '../support/ssh-login.ts'

let service: Service
let ada: KeyObject
let grace: KeyObject

before(async () => {
  service = await startServiceWithSsh()
  ada = await register('ada')
  grace = await register('grace')
})

after(() => service[Symbol.asyncDispose]())

test("a query for another user's key grants nothing", async () => {
  const client = await connectToLogin(service.sshPort)
  assert.equal(await attempt(client, userauthRequest('svc', grace)), 'would be accepted')
  assert.equal(await attempt(client, userauthRequest('svc', ada)), 'would be accepted')
  assert.equal(await attempt(client, userauthRequest('svc', grace)), 'would be accepted')
  assert.equal(await attempt(client, signed(client, ada)), 'accepted')
  assert.equal(await usernameOf(client), 'ada')
  client.socket.destroy()
})

test('a query for one key and a signature by another do not authenticate', async () => {
  const client = await connectToLogin(service.sshPort)
  await attempt(client, userauthRequest('svc', grace))
  const { sessionId } = client
  const request = userauthRequest('svc', grace, { by: ada, sessionId: sessionId() })
  assert.equal(await attempt(client, request), 'refused')
  // The connection is none the worse for it, and none the better.
  assert.equal(await attempt(client, userauthRequest('svc', grace)), 'would be accepted')
  assert.equal(await attempt(client, signed(client, ada)), 'accepted')
  assert.equal(await usernameOf(client), 'ada')
  client.socket.destroy()
})

const login = (key: KeyObject) => ({
  username: 'svc',
  service: 'ssh-connection',
  algorithm: 'ssh-ed25519',
  blob: toBlob(key),
})

test('a signature is valid only for its session, user, service, algorithm and key', async () => {
  const others: [string, (client: RawSsh) => Buffer][] = [
    ['session', () => toBeSigned(login(ada), Buffer.alloc(32, 1))],
    ['no session', () => toBeSigned(login(ada), Buffer.alloc(0))],
    ['user', ({ sessionId }) => toBeSigned({ ...login(ada), username: 'anonymous' }, sessionId())],
    ['service', ({ sessionId }) => toBeSigned({ ...login(ada), service: 'x' }, sessionId())],
    ['algorithm', ({ sessionId }) => toBeSigned({ ...login(ada), algorithm: 'x' }, sessionId())],
    ['key', ({ sessionId }) => toBeSigned({ ...login(ada), blob: toBlob(grace) }, sessionId())],
    ['question', ({ sessionId }) => question(sessionId())],
  ]
  for (const [what, dataOf] of others) {
    const client = await connectToLogin(service.sshPort)
    const signature = ed25519Signature(sign(null, dataOf(client), ada))
    assert.equal(await attempt(client, loginRequest(login(ada), signature)), 'refused', what)
    const right = toBeSigned(login(ada), client.sessionId())
    const good = ed25519Signature(sign(null, right, ada))
    assert.equal(await attempt(client, loginRequest(login(ada), good)), 'accepted', what)
    client.socket.destroy()
  }
})

test('an accepted request cannot be replayed on another connection', async () => {
  const client = await connectToLogin(service.sshPort)
  const request = signed(client, ada)
  assert.equal(await attempt(client, request), 'accepted')
  const thief = await connectToLogin(service.sshPort)
  assert.equal(await attempt(thief, request), 'refused')
  client.socket.destroy()
  thief.socket.destroy()
})

test('a request for another service than ssh-connection ends the connection', async () => {
  const client = await connectToLogin(service.sshPort)
  const request = { ...login(ada), service: 'ssh-userauth' }
  const data = toBeSigned(request, client.sessionId())
  const signature = ed25519Signature(sign(null, data, ada))
  assert.equal(await attempt(client, loginRequest(request, signature)), 'disconnected')
  await client.closed
  // It is the client's fault.
  assert.doesNotMatch(service.log(), /"level":"(error|fatal)"/)
})

test("an RSA key cannot sign with SHA-1, nor under another algorithm's name", async () => {
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const { e = '', n = '' } = publicKey.export({ format: 'jwk' })
  const modulus = Buffer.concat([Buffer.of(0), Buffer.from(n, 'base64url')])
  const publicLine = toKeyLine('ssh-rsa', [Buffer.from(e, 'base64url'), modulus])
  await service.admin.post('/keys', { name: 'x', publicKey: publicLine, username: 'rivest' })
  const blob = Buffer.from(publicLine.split(' ')[1] ?? '', 'base64')
  const cases = [
    ['ssh-rsa', 'sha1', 'ssh-rsa', 'refused'],
    ['rsa-sha2-256', 'sha1', 'ssh-rsa', 'refused'],
    ['rsa-sha2-256', 'sha1', 'rsa-sha2-256', 'refused'],
    ['rsa-sha2-256', 'sha512', 'rsa-sha2-512', 'refused'],
    ['rsa-sha2-256', 'sha256', 'rsa-sha2-512', 'refused'],
    ['rsa-sha2-256', 'sha256', 'rsa-sha2-256', 'accepted'],
    ['rsa-sha2-512', 'sha512', 'rsa-sha2-512', 'accepted'],
  ] as const
  for (const [algorithm, hash, name, expected] of cases) {
    const client = await connectToLogin(service.sshPort)
    const request = { username: 'svc', service: 'ssh-connection', algorithm, blob }
    const proof = sign(hash, toBeSigned(request, client.sessionId()), privateKey)
    const signature = Buffer.concat([writeString(name), writeString(proof)])
    assert.equal(await attempt(client, loginRequest(request, signature)), expected, algorithm)
    client.socket.destroy()
  }
})

for (const [type, make] of Object.entries(securityKeys)) {
  test(`a ${type} authenticates when touched, only for its application`, async () => {
    const { fields, sign: signBytes } = make()
    const publicKey = toKeyLine(type, [...fields, 'ssh:'])
    await service.admin.post('/keys', { name: 'x', publicKey, username: `touch-${type.length}` })
    const blob = Buffer.from(publicKey.split(' ')[1] ?? '', 'base64')
    for (const [touch, expected] of [
      [{ application: 'ssh:', flags: 0, counter: 1 }, 'refused'],
      [{ application: 'ssh:', flags: 4, counter: 1 }, 'refused'],
      [{ application: 'ssh:other', flags: 1, counter: 1 }, 'refused'],
      [{ application: 'ssh:', flags: 1, counter: 1 }, 'accepted'],
      [{ application: 'ssh:', flags: 5, counter: 2 ** 32 - 1 }, 'accepted'],
    ] as const) {
      const client = await connectToLogin(service.sshPort)
      const request = { username: 'svc', service: 'ssh-connection', algorithm: type, blob }
      const data = toBeSigned(request, client.sessionId())
      const signature = signWithSecurityKey(type, touch, data, signBytes)
      assert.equal(await attempt(client, loginRequest(request, signature)), expected)
      client.socket.destroy()
    }
  })
}

test('a key that is deleted during its push is rejected by the hook', async () => {
  await using project = await createProject()
  const key = generateKeyPairSync('ed25519').privateKey
  const owner = await service.client({ username: 'linus' })
  const { body: added } = await owner.post('/keys', { name: 'x', publicKey: toLine(key) })
  const { body: repository } = await owner.post('/repos', { name: 'kernel' })
  const client = await connectToLogin(service.sshPort)
  assert.equal(await attempt(client, signed(client, key)), 'accepted')
  const channel = await client.openSession()
  const line = "git-receive-pack '/kernel.git'"
  client.send(message(messages.channelRequest, channel, 'exec', true, line))
  // Git starts before a push of several refs has arrived.
  const body = await pushBody(project.path, 'main', 'other')
  const half = body.length - 10
  client.send(message(messages.channelData, channel, body.subarray(0, half)))
  await until('git has begun to receive', async () =>
    (await readdir(`${repository.path}/objects`)).some((name) => name.startsWith('tmp_objdir')),
  )
  assert.equal((await owner.delete(`/keys/${added.id}`)).status, 204)
  client.send(message(messages.channelData, channel, body.subarray(half)))
  let answer = ''
  while (!answer.includes('refs/heads/main')) {
    const data = (await client.next(messages.channelData)) ?? assert.fail(answer)
    answer += data.subarray(9)
  }
  assert.match(answer, /ng refs\/heads\/main pre-receive hook declined/)
  assert.equal((await owner.get('/repos/kernel')).body.empty, true)
  client.socket.destroy()
})

async function register(username: string): Promise<KeyObject> {
  const { privateKey } = generateKeyPairSync('ed25519')
  await service.admin.post('/keys', { name: 'x', publicKey: toLine(privateKey), username })
  return privateKey
}

function signed(client: RawSsh, key: KeyObject): Buffer {
  return userauthRequest('svc', key, { by: key, sessionId: client.sessionId() })
}

function ed25519Signature(bytes: Buffer): Buffer {
  return Buffer.concat([writeString('ssh-ed25519'), writeString(bytes)])
}

function question(sessionId: Buffer): Buffer {
  return Buffer.concat([writeString(sessionId), loginRequest(login(ada))])
}

async function usernameOf(client: RawSsh): Promise<string> {
  return JSON.parse(await execute(client, 'whoami --json')).username
}
