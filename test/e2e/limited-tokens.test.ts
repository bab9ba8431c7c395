import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { createProject, type Project } from '../support/git.ts'
import { type Client, createClient, type Service, startService } from '../support/service.ts'
import { newKeyLine } from '../support/ssh-keys.ts'

let service: Service
let project: Project
let owner: Client

const everything = [
  'repo:read',
  'repo:write',
  'repo:delete',
  'collaborator:read',
  'collaborator:write',
  'workflow:read',
  'webhook:read',
]

before(async () => {
  service = await startService()
  project = await createProject()
  owner = await service.client({ username: 'ada', permissions: everything })
  for (const name of ['site', 'vault']) {
    await owner.post('/repos', { name })
    await project.git('push', owner.remote(name), 'HEAD:main')
  }
})

after(async () => {
  await service[Symbol.asyncDispose]()
  await project[Symbol.asyncDispose]()
})

async function limited(limits: object, from: Client = service.admin): Promise<Client> {
  const excluded = 'refs' in limits ? ['repo:delete', 'collaborator:write'] : []
  const permissions = everything.filter((one) => !excluded.includes(one))
  const wanted = { name: 'agent', username: 'ada', permissions, ...limits }
  const { status, body, text } = await from.post('/tokens', wanted)
  assert.equal(status, 201, text)
  return createClient(service.url, body.token, { id: body.id, username: body.username })
}

const namesIn = ({ body }: { body: { name: string }[] }) => body.map(({ name }) => name)

test('a token for some repositories sees nothing of the others', async () => {
  const agent = await limited({ repositories: ['site'] })
  assert.deepEqual(namesIn(await agent.get('/repos')), ['site'])
  const texts = await Promise.all(
    ['vault', 'never-used'].map(async (name) =>
      (await agent.get(`/repos/${name}`)).text.replaceAll(name, '*'),
    ),
  )
  assert.equal(new Set(texts).size, 1)
  await assert.rejects(project.git('ls-remote', agent.remote('vault')), /not found/)
  await assert.rejects(project.git('push', agent.remote('vault'), 'HEAD:x'), /not found/)
  await project.git('push', agent.remote('site'), 'HEAD:by-agent')
  for (const query of ['', '?repository=site', '?wait=1&after=latest']) {
    const { body } = await agent.get(`/events${query}`)
    for (const { repoName } of body) assert.equal(repoName, 'site')
  }
  assert.equal((await agent.get('/events?repository=vault')).status, 404)
  const { body } = await agent.get('/events')
  assert.ok(body.some(({ kind }: { kind: string }) => kind === 'push'))
})

test('events of other repositories do not reach a limited token that follows them', async () => {
  const agent = await limited({ repositories: ['site'] })
  const waiting = agent.get('/events?after=latest&wait=20')
  await service.admin.post('/repos', { name: 'elsewhere' })
  await owner.put('/repos/vault/protections/branches/release')
  await owner.post('/keys', { name: 'laptop', publicKey: newKeyLine() })
  await owner.put('/repos/site/protections/branches/release')
  const { body } = await waiting
  assert.deepEqual(
    body.map(({ kind, repoName }: { kind: string; repoName: string }) => [kind, repoName]),
    [['protection.added', 'site']],
  )
})

test('a token for some repositories does nothing else', async () => {
  const agent = await limited({ repositories: ['site'] })
  for (const [method, path, body] of [
    ['POST', '/repos', { name: 'another' }],
    ['POST', '/repos/import', { name: 'another', source: 'https://example.com/x.git' }],
    ['GET', '/keys', undefined],
    ['POST', '/keys', { name: 'laptop', publicKey: newKeyLine() }],
  ] as const) {
    const answer = await agent.call(method, path, body)
    assert.deepEqual([answer.status, answer.body.code], [403, 'token_limited'], path)
  }
})

test('a rename changes nothing, and a new repository of the name is another one', async () => {
  await owner.post('/repos', { name: 'moving' })
  const agent = await limited({ repositories: ['moving', 'site', 'moving'] })
  await owner.patch('/repos/moving', { name: 'moved' })
  await owner.post('/repos', { name: 'moving' })
  assert.deepEqual(namesIn(await agent.get('/repos')).sort(), ['moved', 'site'])
  assert.equal((await agent.get('/repos/moving')).status, 404)
  await owner.delete('/repos/moved')
  await owner.delete('/repos/moving')
  assert.deepEqual(namesIn(await agent.get('/deleted-repos')), ['moved'])
  const deleted = (await owner.get('/deleted-repos')).body
  const other = deleted.find(({ name }: { name: string }) => name === 'moving')
  for (const id of [other.id, 'nonsense']) {
    const answer = await agent.post(`/deleted-repos/${id}/restore`, {})
    assert.equal(answer.status, 404)
  }
  await owner.post('/repos', { name: 'moved' })
  assert.deepEqual(namesIn(await agent.get('/repos')), ['site'])
  const { body } = await service.admin.get('/tokens')
  const shown = body.find(({ id }: { id: string }) => id === agent.id)
  assert.deepEqual(shown.repositories, ['site'])
})

test('a token for some refs pushes no other', async () => {
  const agent = await limited({ refs: ['refs/heads/agents/*', 'refs/tags/nightly'] })
  await project.git('push', agent.remote('site'), 'HEAD:refs/heads/agents/7/fix')
  await project.git('push', agent.remote('site'), 'HEAD:refs/tags/nightly')
  for (const refs of [
    ['HEAD:main2'],
    ['HEAD:refs/tags/v1'],
    [':refs/heads/main'],
    ['HEAD:refs/heads/agents/8', 'HEAD:refs/heads/other'],
  ]) {
    await assert.rejects(project.git('push', agent.remote('site'), ...refs), /may not change/)
  }
  const heads = await project.git('ls-remote', agent.remote('site'))
  assert.ok(!/agents\/8|other|main2|v1/.test(heads), heads)
  const answer = await agent.patch('/repos/site', { defaultBranch: 'agents/7/fix' })
  assert.deepEqual([answer.status, answer.body.code], [403, 'token_limited'])
  for (const call of [
    agent.post('/keys', { name: 'laptop', publicKey: newKeyLine() }),
    agent.delete('/keys/01m7zw5rxxmcby16q9cc6g8enj'),
  ])
    assert.equal((await call).body.code, 'token_limited')
})

test('a token for some refs changes nothing else of a repository', async () => {
  const agent = await limited({ refs: ['refs/heads/agents/*'] })
  await owner.put('/repos/site/protections/branches/guarded')
  for (const call of [
    agent.delete('/repos/site/protections/branches/guarded'),
    agent.put('/repos/site/protections/branches/*', { owners: 'none' }),
    agent.put('/repos/site/protections/tags/*'),
    agent.patch('/repos/site', { name: 'mine' }),
    agent.patch('/repos/site', { description: 'mine' }),
    agent.patch('/repos/site', { leakGuard: false }),
  ]) {
    const { status, body } = await call
    assert.deepEqual([status, body.code], [403, 'token_limited'])
  }
  const { body } = await owner.get('/repos/site/protections/branches')
  assert.ok(body.branches.includes('guarded'))
  assert.ok(!body.branches.includes('*'))
  await owner.delete('/repos/site/protections/branches/guarded')
  for (const permission of ['admin', 'repo:delete', 'collaborator:write']) {
    const wanted = { name: 'x', permissions: [permission], refs: ['refs/heads/agents/*'] }
    const refused = await service.admin.post('/tokens', wanted)
    assert.deepEqual([refused.status, refused.body.errors[0].pointer], [400, '/permissions'])
  }
})

test('a token for some repositories does not learn which names and users there are', async () => {
  const agent = await limited({ repositories: ['site'] })
  for (const name of ['vault', 'never-used']) {
    const { status, body } = await agent.patch('/repos/site', { name })
    assert.deepEqual([status, body.code], [403, 'token_limited'])
  }
  await owner.post('/repos', { name: 'passing' })
  const brief = await limited({ repositories: ['passing'] })
  const { id } = (await owner.get('/repos/passing')).body
  await owner.delete('/repos/passing')
  // Its former name may be taken by now.
  for (const body of [{}, { name: 'vault' }, { name: 'never-used' }]) {
    const restored = await brief.post(`/deleted-repos/${id}/restore`, body)
    assert.deepEqual([restored.status, restored.body.code], [403, 'token_limited'])
  }
  const added = await agent.post('/repos/site/collaborators', { username: 'no-such-user' })
  assert.deepEqual([added.status, added.body.unknown], [201, undefined])
  await owner.delete('/repos/site/collaborators/no-such-user')
})

test('to an owner, a token that cannot see the repository is like one that does not exist', async () => {
  const stranger = await service.client({ username: 'eve', permissions: ['metrics:read'] })
  const answers = await Promise.all(
    [stranger.id, '01m7zw5rxxmcby16q9cc6g8enj'].map((tokenId) =>
      owner.post('/repos/site/check', { action: 'fetch', tokenId }),
    ),
  )
  const [first, second] = answers.map(({ status, body }) => ({ status, ...body }))
  assert.deepEqual(first, second)
})

test('an undo is a push, also for a token for some refs', async () => {
  const agent = await limited({ refs: ['refs/heads/agents/*'] })
  await project.git('push', owner.remote('site'), 'HEAD:refs/heads/theirs')
  await project.git('push', agent.remote('site'), 'HEAD:refs/heads/agents/mine')
  const [mine, theirs] = (await agent.get('/repos/site/pushes?limit=2')).body
  const refused = await agent.post(`/repos/site/pushes/${theirs.id}/undo`)
  assert.deepEqual([refused.status, refused.body.code], [403, 'token_limited'], refused.text)
  assert.equal((await agent.post(`/repos/site/pushes/${mine.id}/undo`)).status, 200)
})

test('a token can end after seconds', async () => {
  const { body } = await service.admin.post('/tokens', { name: 'brief', expiresInSeconds: 60 })
  assert.equal(body.expiresAt - body.createdAt, 60_000)
})

test('limits that make no sense are refused with the field', async () => {
  for (const [limits, pointer] of [
    [{ repositories: [] }, '/repositories'],
    [{ repositories: ['a..b'] }, '/repositories/0'],
    [{ repositories: 'site' }, '/repositories'],
    [{ repositories: ['site'], permissions: ['admin'] }, '/permissions'],
    [{ repositories: ['site'], permissions: ['runner'] }, '/permissions'],
    [{ repositories: ['site'], permissions: ['metrics:read'] }, '/permissions'],
    [{ refs: ['refs/heads/x'], permissions: ['admin'] }, '/permissions'],
    [{ refs: [] }, '/refs'],
    [{ refs: ['main'] }, '/refs/0'],
    [{ refs: ['refs/heads/ok', 'refs/heads/a b'] }, '/refs/1'],
    [{ refs: ['*'] }, '/refs/0'],
    [{ expiresInSeconds: 59 }, '/expiresInSeconds'],
    [{ expiresInSeconds: 3650 * 86400 + 1 }, '/expiresInSeconds'],
    [{ expiresInSeconds: 60, expiresInDays: 1 }, '/expiresInSeconds'],
    [{ expiresInSeconds: 60, expiresInDays: null }, '/expiresInSeconds'],
  ] as const) {
    const answer = await service.admin.post('/tokens', { name: 'x', ...limits })
    assert.equal(answer.status, 400, answer.text)
    assert.equal(answer.body.errors[0].pointer, pointer, answer.text)
  }
  const unknown = await service.admin.post('/tokens', { name: 'x', repositories: ['never-used'] })
  assert.deepEqual([unknown.status, unknown.body.code], [404, 'repository_not_found'])
})

test('metrics take a permission of their own', async () => {
  const reader = await service.client({ permissions: ['metrics:read'] })
  assert.equal((await reader.get('/metrics')).status, 200)
  assert.equal((await owner.get('/metrics')).status, 403)
})
