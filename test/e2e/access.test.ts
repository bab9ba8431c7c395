// Tags: each-store
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { until } from '../support/condition.ts'
import { createProject, git, type Project } from '../support/git.ts'
import { type Client, createClient, type Service, startService } from '../support/service.ts'

let service: Service
let project: Project
let owner: Client

before(async () => {
  service = await startService()
  project = await createProject()
  owner = await service.client({ username: 'ada', permissions: everything })
  await owner.post('/repos', { name: 'site' })
  await project.git('push', owner.remote('site'), 'HEAD:main')
})

after(async () => {
  await service[Symbol.asyncDispose]()
  await project[Symbol.asyncDispose]()
})

const everything = [
  'repo:read',
  'repo:write',
  'repo:delete',
  'collaborator:read',
  'collaborator:write',
]

test('a user without access learns nothing about a repository, over any transport', async () => {
  const stranger = await service.client({ username: 'eve' })
  assert.deepEqual((await stranger.get('/repos')).body, [])
  for (const name of ['site', 'never-used']) {
    const push = await stderrOf(project.git('push', stranger.remote(name), 'HEAD:x'))
    const fetch = await stderrOf(project.git('ls-remote', stranger.remote(name)))
    for (const text of [push, fetch]) {
      assert.match(text, new RegExp(`no repository "${name}", or it is not yours to see`))
      assert.match(text, /not found/)
    }
  }
  const texts = await Promise.all(
    ['site', 'SITE', 'never-used'].map(async (name) =>
      (await stranger.get(`/repos/${name}`)).text.replaceAll(name, '*'),
    ),
  )
  assert.equal(new Set(texts).size, 1)
})

test('a collaborator may read and push within the permissions of the token', async () => {
  await owner.post('/repos/site/collaborators', { username: 'grace' })
  const reader = await service.client({ username: 'grace', permissions: ['repo:read'] })
  const writer = await service.client({ username: 'grace', permissions: ['repo:write'] })
  await project.git('ls-remote', reader.remote('site'))
  await project.git('push', writer.remote('site'), 'HEAD:by-grace')
  assert.match(await stderrOf(project.git('push', reader.remote('site'), 'HEAD:x')), /repo:write/)
  assert.match(await stderrOf(project.git('ls-remote', writer.remote('site'))), /repo:read/)
  assert.deepEqual(
    (await reader.get('/repos')).body.map(({ name }: { name: string }) => name),
    ['site'],
  )
})

test('a removed collaborator has no access from the next request on', async () => {
  await owner.post('/repos/site/collaborators', { username: 'alan' })
  const alan = await service.client({ username: 'alan' })
  assert.equal((await alan.get('/repos/site')).status, 200)
  await owner.delete('/repos/site/collaborators/alan')
  assert.equal((await alan.get('/repos/site')).status, 404)
})

test('a repository belongs to a username, and outlives the token that created it', async () => {
  const maker = await service.client({ username: 'linus' })
  await maker.post('/repos', { name: 'kernel' })
  await service.admin.delete(`/tokens/${maker.id}`)
  assert.equal((await maker.get('/repos/kernel')).status, 401)
  const other = await service.client({ username: 'linus' })
  const { body } = await other.get('/repos/kernel')
  assert.equal(body.ownerTokenId, maker.id)
  assert.equal((await other.put('/repos/kernel/protections/branches/main')).status, 200)
})

test('two tokens without a username share nothing', async () => {
  const [one, two] = [await service.client(), await service.client()]
  assert.notEqual(one.username, two.username)
  await one.post('/repos', { name: 'private' })
  assert.equal((await two.get('/repos/private')).status, 404)
})

test('a token without permissions has no rights', async () => {
  const nothing = await service.client({ permissions: [] })
  for (const path of ['/repos', '/repos/site', '/tokens']) {
    assert.equal((await nothing.get(path)).status, 403)
  }
})

test('an admin token may do everything everywhere', async () => {
  assert.equal((await service.admin.get('/repos/site')).status, 200)
  await project.git('push', service.admin.remote('site'), 'HEAD:by-admin')
})

test('tokens are shown once, expire on time, and show their last use', async () => {
  const { body: created } = await service.admin.post('/tokens', { name: 'ci' })
  assert.match(created.token, /^svc_[0-9A-Za-z]{36}$/)
  assert.deepEqual(created.permissions, ['repo:read', 'repo:write'])
  const year = 365 * 24 * 60 * 60 * 1000
  assert.equal(created.expiresAt - created.createdAt, year)
  const never = await service.admin.post('/tokens', { name: 'x', expiresInDays: null })
  assert.equal(never.body.expiresAt, null)
  const client = createClient(service.url, created.token)
  assert.equal((await client.get('/repos')).status, 200)
  assert.ok(!(await service.admin.get('/tokens')).text.includes(created.token))
  const usedAt = async () => {
    const { body } = await service.admin.get('/tokens')
    return body.find(({ id }: { id: string }) => id === created.id).lastUsedAt ?? undefined
  }
  assert.ok((await until('its use is noted', usedAt)) >= created.createdAt)
})

test('the tokens endpoint names invalid fields and what they accept', async () => {
  const wrong = [
    [{ name: '' }, '/name'],
    [{ name: 'x', permissions: ['repo:admin'] }, '/permissions/0'],
    [{ name: 'x', permissions: 'admin' }, '/permissions'],
    [{ name: 'x', expiresInDays: 0 }, '/expiresInDays'],
    [{ name: 'x', expiresInDays: '7' }, '/expiresInDays'],
    [{ name: 'x', expiresInDays: 1.5 }, '/expiresInDays'],
    [{ name: 'x', username: 'a b' }, '/username'],
    [{}, '/name'],
  ] as const
  for (const [body, pointer] of wrong) {
    const answer = await service.admin.post('/tokens', body)
    assert.equal(answer.status, 400)
    assert.equal(answer.body.errors[0].pointer, pointer)
    assert.match(answer.body.errors[0].detail, /must be |it takes/)
  }
})

test('lists are paginated on request', async () => {
  const client = await service.client({ username: 'pager' })
  for (const name of ['page-1', 'page-2', 'page-3', 'page-4', 'page-5']) {
    await client.post('/repos', { name })
  }
  const names: string[] = []
  let path: string | undefined = '/repos?limit=2'
  let pages = 0
  while (path !== undefined) {
    const answer = await client.get(path)
    names.push(...answer.body.map(({ name }: { name: string }) => name))
    path = /<([^>]+)>; rel="next"/.exec(answer.headers.get('link') ?? '')?.[1]
    pages += 1
  }
  assert.equal(pages, 3)
  assert.deepEqual(names, ['page-1', 'page-2', 'page-3', 'page-4', 'page-5'])
  for (const query of ['limit=0', 'limit=1001', 'limit=x', 'limit=1&limit=2', 'cursor=x']) {
    const answer = await client.get(`/repos?${query}`)
    assert.deepEqual([answer.status, answer.body.code], [400, 'invalid_request'])
  }
})

test('a rename keeps the data of a repository and frees the old name', async () => {
  const client = await service.client({ username: 'mover', permissions: everything })
  await client.post('/repos', { name: 'before' })
  await project.git('push', client.remote('before'), 'HEAD:main')
  await client.put('/repos/before/protections/branches/main')
  await client.post('/repos/before/collaborators', { username: 'grace' })
  const renamed = await client.patch('/repos/before', { name: 'after' })
  assert.deepEqual([renamed.status, renamed.body.name], [200, 'after'])
  assert.deepEqual(renamed.body.protectedBranches, ['main'])
  assert.equal((await client.get('/repos/before')).status, 404)
  assert.match(await project.git('ls-remote', client.remote('after')), /refs\/heads\/main/)
  assert.equal((await client.patch('/repos/after', { name: 'AFTER' })).status, 200)
  const again = await client.post('/repos', { name: 'before' })
  assert.equal(again.status, 201)
  assert.deepEqual([again.body.protectedBranches, again.body.empty], [[], true])
  assert.equal((await client.patch('/repos/before', { name: 'after' })).status, 409)
})

test('of concurrent renames and creations with one name, one succeeds', async () => {
  const client = await service.client({ username: 'racer' })
  const names = Array.from({ length: 8 }, (_, index) => `racer-${index}`)
  for (const name of names) await client.post('/repos', { name })
  const answers = await Promise.all([
    ...names.map((name) => client.patch(`/repos/${name}`, { name: 'goal' })),
    ...names.map(() => client.post('/repos', { name: 'Goal' })),
  ])
  const statuses = answers.map(({ status }) => status)
  assert.equal(statuses.filter((status) => status < 300).length, 1)
  assert.equal(statuses.filter((status) => status === 409).length, 15)
})

test('a deleted repository leaves nothing to a later one of its name', async () => {
  const client = await service.client({ username: 'ender', permissions: everything })
  await client.post('/repos', { name: 'thing' })
  await project.git('push', client.remote('thing'), 'HEAD:main')
  await client.post('/repos/thing/collaborators', { username: 'grace' })
  assert.equal((await client.delete('/repos/thing')).status, 204)
  assert.equal((await client.get('/repos/thing')).status, 404)
  assert.match(await stderrOf(project.git('ls-remote', client.remote('thing'))), /not found/)
  await client.post('/repos', { name: 'thing' })
  assert.equal(await project.git('ls-remote', client.remote('thing')), '')
  assert.deepEqual((await client.get('/repos/thing/collaborators')).body.collaborators, [])
})

test('Git accepts tokens as Basic and Bearer, the API only as Bearer', async () => {
  const bearer = `http.extraHeader=Authorization: Bearer ${owner.token}`
  await git(project.path, ['-c', bearer, 'ls-remote', `${service.url}/repos/site.git`])
  const basic = Buffer.from(`:${owner.token}`).toString('base64')
  const answer = await fetch(`${service.url}/repos`, {
    headers: { authorization: `Basic ${basic}` },
  })
  assert.equal(answer.status, 401)
})

async function stderrOf(attempt: Promise<unknown>): Promise<string> {
  return attempt.then(
    () => assert.fail('it was let in'),
    (error) => error.stderr,
  )
}
