import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { parsePublicKey } from '#ssh/public-key.ts'
import { temporaryFolder } from '../support/git.ts'
import { without } from '../support/programs.ts'
import { type Client, type Service, startService } from '../support/service.ts'
import { generateKey, newKeyLine, sshKeygen } from '../support/ssh-keys.ts'

let service: Service
let admin: Client
let ada: Client

before(async () => {
  service = await startService()
  admin = service.admin
  ada = await service.client({ username: 'ada' })
})

after(() => service[Symbol.asyncDispose]())

test('a key of ssh-keygen is added, listed and deleted', { skip: without('openssh') }, async () => {
  await using folder = await temporaryFolder()
  const path = join(folder.path, 'id')
  const line = await generateKey(path, '-t', 'ed25519')
  const { status, body } = await ada.post('/keys', { name: 'laptop', publicKey: line })
  assert.equal(status, 201)
  const { id, createdAt, expiresAt, fingerprint, ...rest } = body
  const [token] = (await admin.get('/tokens')).body.filter(({ id }: Client) => id === ada.id)
  assert.equal(expiresAt, token.expiresAt)
  assert.equal(fingerprint, (await sshKeygen('-l', '-f', path)).split(' ')[1])
  assert.ok(Math.abs(createdAt - Date.now()) < 60_000)
  const named = { username: 'ada', name: 'laptop', publicKey: line.trim(), keyType: 'ssh-ed25519' }
  const granted = { permissions: ['repo:read', 'repo:write'], repositories: null }
  assert.deepEqual(rest, { ...named, ...granted, lastUsedAt: null })
  assert.deepEqual((await ada.get('/keys')).body, [body])
  assert.equal((await ada.delete(`/keys/${id}`)).status, 204)
  assert.deepEqual((await ada.get('/keys')).body, [])
  assert.equal((await ada.post('/keys', { name: 'again', publicKey: line })).status, 201)
})

test('any private key is rejected and not printed', {
  skip: without('openssh'),
}, async () => {
  await using folder = await temporaryFolder()
  const path = join(folder.path, 'id')
  await generateKey(path, '-t', 'ed25519')
  const privateKey = await readFile(path, 'utf8')
  const { status, body, text } = await ada.post('/keys', { name: 'x', publicKey: privateKey })
  assert.deepEqual([status, body.code], [400, 'invalid_request'])
  assert.match(body.detail, /^This is a private key.* send the \.pub file\.$/)
  assert.deepEqual(body.errors, [{ pointer: '/publicKey', detail: body.detail }])
  const [, secret = ''] = privateKey.split('\n')
  assert.ok(!text.includes(secret) && !service.log().includes(secret))
})

test('only an admin may name a username, even its own', async () => {
  const named = { name: 'x', publicKey: newKeyLine(), username: 'ada' }
  const refusals = await Promise.all([ada.post('/keys', named), ada.get('/keys?username=ada')])
  for (const { status, body } of refusals) {
    assert.deepEqual([status, body.code], [403, 'permission_missing'])
    assert.equal(body.detail, 'This requires the permission admin.')
  }
  const grace = { ...named, username: 'grace' }
  const { body: added } = await admin.post('/keys', grace)
  assert.equal(added.username, 'grace')
  assert.deepEqual((await admin.get('/keys?username=grace')).body, [added])
  assert.equal((await ada.get('/keys')).text.includes(added.id), false)
  assert.deepEqual((await admin.get('/keys')).body, [])
  assert.equal((await admin.get('/keys?username=a/b')).status, 400)
})

test('a key has at most the permissions of the token that added it', async () => {
  const cases = [
    [['repo:read'], undefined, ['repo:read']],
    [['repo:write', 'repo:delete'], undefined, ['repo:write']],
    [['admin'], undefined, ['repo:read', 'repo:write']],
    [['collaborator:read'], undefined, []],
    [['repo:read', 'repo:write'], ['repo:read'], ['repo:read']],
    [['repo:read', 'repo:write'], ['repo:write', 'repo:write'], ['repo:write']],
    [['repo:read', 'repo:write'], [], []],
    [['repo:read'], ['repo:read', 'repo:write'], 'repo:write'],
    [[], ['repo:read'], 'repo:read'],
  ] as const
  for (const [held, asked, expected] of cases) {
    const client = await service.client({ permissions: [...held] })
    const key = { name: 'x', publicKey: newKeyLine(), ...(asked && { permissions: asked }) }
    const { status, body } = await client.post('/keys', key)
    if (typeof expected === 'string') {
      assert.deepEqual([status, body.code], [403, 'permission_missing'])
      assert.equal(body.detail, `This requires the permission ${expected}.`)
      assert.deepEqual((await client.get('/keys')).body, [])
    } else {
      assert.deepEqual([status, body.permissions], [201, expected])
    }
  }
  const more = { name: 'x', publicKey: newKeyLine(), permissions: ['admin'] }
  assert.equal((await admin.post('/keys', more)).status, 400)
})

test('a key is registered once, and its user is not revealed', async () => {
  const publicKey = newKeyLine('mine')
  await ada.post('/keys', { name: 'x', publicKey })
  const other = await service.client({ username: 'other' })
  const renamed = publicKey.replace('mine', 'yours')
  const answers = [
    await ada.post('/keys', { name: 'x', publicKey }),
    await other.post('/keys', { name: 'y', publicKey: renamed }),
  ]
  for (const { status, body, text } of answers) {
    assert.deepEqual([status, body.code], [409, 'ssh_key_taken'])
    assert.doesNotMatch(text, /ada/)
    assert.equal(text, answers[0]?.text)
  }
})

test("another user's key appears as absent, except to an admin", async () => {
  const { body: key } = await ada.post('/keys', { name: 'x', publicKey: newKeyLine() })
  const stranger = await service.client({ username: 'stranger', permissions: ['repo:delete'] })
  const absentId = key.id.replace(/.$/, key.id.endsWith('0') ? '1' : '0')
  const there = await stranger.delete(`/keys/${key.id}`)
  const absent = await stranger.delete(`/keys/${absentId}`)
  assert.deepEqual([there.status, there.body.code], [404, 'ssh_key_not_found'])
  assert.equal(there.text.replaceAll(key.id, absentId), absent.text)
  assert.ok((await ada.get('/keys')).text.includes(key.id))
  assert.equal((await admin.delete(`/keys/${key.id}`)).status, 204)
  assert.equal((await admin.delete(`/keys/${key.id}`)).status, 404)
})

test('pages of keys keep the requested username', async () => {
  const names = ['one', 'two', 'three']
  for (const name of names) {
    await admin.post('/keys', { name, publicKey: newKeyLine(), username: 'pager' })
    await admin.post('/keys', { name, publicKey: newKeyLine(), username: 'another' })
  }
  const seen: string[] = []
  let next: string | undefined = '/keys?username=pager&limit=2'
  while (next) {
    const page: Awaited<ReturnType<Client['get']>> = await admin.get(next)
    seen.push(...page.body.map(({ name }: { name: string }) => name))
    next = /^<(.*)>; rel="next"$/.exec(page.headers.get('link') ?? '')?.[1]
  }
  assert.deepEqual(seen, names)
})

test('names are not empty, and keys are normalized', async () => {
  const publicKey = newKeyLine('laptop')
  for (const name of ['', 'a\nb', 'x'.repeat(101)]) {
    assert.equal((await ada.post('/keys', { name, publicKey })).status, 400)
  }
  const spaced = ` ${publicKey.replace(' ', ' \t ')}\r\n`
  const { body } = await ada.post('/keys', { name: 'x'.repeat(100), publicKey: spaced })
  assert.equal(body.publicKey, publicKey)
  assert.equal(body.fingerprint, parsePublicKey(publicKey).fingerprint)
})
