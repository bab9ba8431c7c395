import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { newTokenString } from '#base/token-string.ts'
import { createProject, type Project, temporaryFolder } from '../support/git.ts'
import { without } from '../support/programs.ts'
import {
  type Answer,
  type Client,
  createClient,
  type Service,
  startService,
} from '../support/service.ts'
import { withClockAhead } from '../support/shifted-clock.ts'
import { newKeyLine } from '../support/ssh-keys.ts'

let service: Service
let project: Project
let owner: Client

before(async () => {
  service = await startService()
  project = await createProject()
  owner = await service.client({
    username: 'ada',
    permissions: ['repo:read', 'repo:write', 'webhook:read'],
  })
  for (const name of ['site', 'vault']) await owner.post('/repos', { name })
  await project.git('push', owner.remote('site'), 'HEAD:main')
})

after(async () => {
  await service[Symbol.asyncDispose]()
  await project[Symbol.asyncDispose]()
})

async function delegate(from: Client, wanted: object = {}): Promise<Client> {
  const { status, body, text } = await from.post('/tokens/delegate', { name: 'part', ...wanted })
  assert.equal(status, 201, text)
  return createClient(service.url, body.token, { id: body.id, username: body.username })
}

const idsIn = ({ body }: Answer) => body.map(({ id }: { id: string }) => id)
const namesIn = ({ body }: Answer) => body.map(({ name }: { name: string }) => name)

test('a delegated token has the wanted part of the rights, and the username', async () => {
  const part = await delegate(owner, {
    permissions: ['repo:read', 'repo:write'],
    repositories: ['site'],
    refs: ['refs/heads/agents/*'],
    expiresInSeconds: 600,
  })
  assert.equal(part.username, 'ada')
  assert.deepEqual(namesIn(await part.get('/repos')), ['site'])
  await project.git('push', part.remote('site'), 'HEAD:refs/heads/agents/1')
  await assert.rejects(project.git('push', part.remote('site'), 'HEAD:main2'), /may not change/)
  assert.equal((await part.get('/repos/site/webhooks')).status, 403)
  const [shown] = (await owner.get('/tokens/delegated')).body.slice(-1)
  const { id, name, repositories, refs, delegatedFrom, createdAt, expiresAt } = shown
  assert.deepEqual(
    [id, name, repositories, refs],
    [part.id, 'part', ['site'], ['refs/heads/agents/*']],
  )
  assert.equal(delegatedFrom, owner.id)
  assert.equal(expiresAt - createdAt, 600_000)
  assert.ok(!('tokenHash' in shown) && !('token' in shown))
})

test('what is omitted is that of the delegating token, of permissions reading and writing', async () => {
  const part = await delegate(owner)
  const { body } = await owner.get('/tokens/delegated')
  const shown = body.find(({ id }: { id: string }) => id === part.id)
  assert.deepEqual(shown.permissions, ['repo:read', 'repo:write'])
  assert.deepEqual([shown.repositories, shown.refs], [null, null])
  const narrow = await delegate(owner, {
    permissions: ['repo:read'],
    repositories: ['vault'],
    refs: ['refs/heads/a*'],
    expiresInSeconds: 100,
  })
  const child = (await narrow.post('/tokens/delegate', { name: 'child' })).body
  assert.deepEqual(child.permissions, ['repo:read'])
  assert.deepEqual([child.repositories, child.refs], [['vault'], ['refs/heads/a*']])
  assert.ok(child.expiresAt <= child.createdAt + 100_000)
})

test('more than the delegating token has is refused', async () => {
  const part = await delegate(owner, {
    permissions: ['repo:read'],
    repositories: ['site'],
    refs: ['refs/heads/agents/*'],
    expiresInSeconds: 600,
  })
  for (const [wanted, code] of [
    [{ permissions: ['repo:write'] }, 'permission_missing'],
    [{ permissions: ['admin'] }, 'permission_missing'],
    [{ repositories: ['vault'] }, 'repository_not_found'],
    [{ repositories: ['site', 'never-used'] }, 'repository_not_found'],
    [{ refs: ['refs/heads/*'] }, 'token_limited'],
    [{ refs: ['refs/heads/agents/1', 'refs/heads/main'] }, 'token_limited'],
    [{ expiresInSeconds: 601 }, 'token_limited'],
    [{ expiresInDays: 1 }, 'token_limited'],
    [{ expiresInDays: null }, 'token_limited'],
    [{ username: 'grace' }, 'invalid_request'],
  ] as const) {
    const answer = await part.post('/tokens/delegate', { name: 'more', ...wanted })
    assert.equal(answer.body.code, code, answer.text)
  }
  assert.deepEqual((await part.get('/tokens/delegated')).body, [])
})

test('an admin can delegate a part of everything, and the delegated token makes none but by delegation', async () => {
  const part = await delegate(service.admin, { permissions: ['admin'] })
  assert.equal((await part.get('/tokens')).status, 200)
  for (const [path, body] of [
    ['/tokens', { name: 'escape' }],
    ['/keys', { name: 'escape', publicKey: newKeyLine() }],
  ] as const) {
    const answer = await part.post(path, body)
    assert.deepEqual([answer.status, answer.body.code], [403, 'token_limited'])
  }
  const limited = await part.post('/tokens/delegate', {
    name: 'x',
    permissions: ['admin'],
    repositories: ['site'],
  })
  assert.equal(limited.body.errors[0].pointer, '/permissions')
})

test('deleting a token ends the chain, also of what it does at the moment', async () => {
  const root = await service.client({ username: 'ada', permissions: ['repo:read'] })
  const child = await delegate(root, { permissions: ['repo:read'] })
  const grandchild = await delegate(child, { permissions: ['repo:read'] })
  const sibling = await delegate(root, { permissions: ['repo:read'] })
  assert.deepEqual(idsIn(await root.get('/tokens/delegated')), [
    child.id,
    grandchild.id,
    sibling.id,
  ])
  assert.deepEqual(idsIn(await root.get('/tokens/delegated?limit=1')), [child.id])
  assert.deepEqual(idsIn(await child.get('/tokens/delegated')), [grandchild.id])
  for (const id of [root.id, sibling.id, child.id, 'nonsense'])
    assert.equal((await child.delete(`/tokens/delegated/${id}`)).status, 404)

  const stream = await fetch(`${service.url}/events?follow=true`, {
    headers: { authorization: `Bearer ${grandchild.token}` },
  })
  assert.equal(stream.status, 200)
  assert.equal((await root.delete(`/tokens/delegated/${child.id}`)).status, 204)
  // The stream ends, or this test does not.
  await stream.text()
  for (const gone of [child, grandchild]) assert.equal((await gone.get('/repos')).status, 401)
  assert.equal((await sibling.get('/repos')).status, 200)
  assert.equal((await service.admin.delete(`/tokens/${root.id}`)).status, 204)
  assert.equal((await sibling.get('/repos')).status, 401)
  const events = (await service.admin.get('/events?kind=token.deleted&limit=1000')).body
  const deleted = events.map(({ data }: { data: { tokenId: string } }) => data.tokenId)
  for (const { id } of [root, child, grandchild, sibling])
    assert.equal(deleted.filter((one: string) => one === id).length, 1)
})

test('a token that is delegated while its origin is deleted does not survive', async () => {
  for (let round = 0; round < 10; round++) {
    const root = await service.client({ username: 'ada', permissions: ['repo:read'] })
    const child = await delegate(root, { permissions: ['repo:read'] })
    const racing = Array.from({ length: 8 }, () =>
      child.post('/tokens/delegate', { name: 'late', permissions: ['repo:read'] }),
    )
    await service.admin.delete(`/tokens/${root.id}`)
    for (const { status, body } of await Promise.all(racing)) {
      assert.ok(status === 201 || status === 401, String(status))
      if (status === 201)
        assert.equal((await createClient(service.url, body.token).get('/repos')).status, 401)
    }
  }
})

test('expired tokens are not listed, and end', { skip: without('faketime') }, async () => {
  await using folder = await temporaryFolder()
  const env = { SVC_ADMIN_TOKEN: newTokenString() }
  const root = await startService({ dataDir: folder.path, env })
  const { body } = await root.admin.post('/tokens/delegate', { name: 'x', expiresInSeconds: 60 })
  assert.deepEqual(idsIn(await root.admin.get('/tokens/delegated')), [body.id])
  await root.end('SIGTERM')
  await using later = await startService({
    dataDir: folder.path,
    env: { ...env, ...withClockAhead(2) },
  })
  assert.deepEqual((await later.admin.get('/tokens/delegated')).body, [])
  assert.equal((await createClient(later.url, body.token).get('/repos')).status, 401)
  // The next delegation removes it.
  await later.admin.post('/tokens/delegate', { name: 'y', expiresInSeconds: 60 })
  assert.deepEqual(namesIn(await later.admin.get('/tokens')), ['admin', 'y'])
})
