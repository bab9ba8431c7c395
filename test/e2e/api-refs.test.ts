// Tags: each-store
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { createProject, type Project } from '../support/git.ts'
import { type Client, createClient, type Service, startService } from '../support/service.ts'

const none = '0'.repeat(40)

let service: Service
let owner: Client
let project: Project
let first: string
let second: string

before(async () => {
  service = await startService()
  owner = await service.client({ username: 'ada', permissions: ['repo:read', 'repo:write'] })
  project = await createProject()
  first = await project.git('rev-parse', 'HEAD')
  second = await project.commit('second.txt')
  await project.git('tag', '-a', '-m', 'Noted', 'noted', first)
  await project.git('tag', 'tree', 'HEAD^{tree}')
})

after(async () => {
  await service[Symbol.asyncDispose]()
  await project[Symbol.asyncDispose]()
})

async function create(name: string): Promise<void> {
  assert.equal((await owner.post('/repos', { name })).status, 201)
  await project.git('push', '--quiet', owner.remote(name), 'main', '--tags')
}

const pathOf = (name: string, ref: string) => `/repos/${name}/refs?ref=${encodeURIComponent(ref)}`
const set = (name: string, ref: string, fields: object, client = owner) =>
  client.put(pathOf(name, ref), fields)

test('a ref is created, moved and deleted, and each is a push', async () => {
  await create('life')
  const made = await set('life', 'refs/heads/topic', { target: first, expected: none })
  assert.deepEqual([made.status, made.body.id, made.body.before], [201, first, none])
  const again = await set('life', 'refs/heads/topic', { target: first, expected: none })
  assert.deepEqual([again.status, again.body.pushId], [200, null])
  const taken = await set('life', 'refs/heads/topic', { target: 'main', expected: none })
  assert.deepEqual([taken.status, taken.body.code, taken.body.head], [409, 'ref_moved', first])
  const moved = await set('life', 'refs/heads/topic', { target: 'main', expected: first })
  assert.deepEqual([moved.status, moved.body.id], [200, second])
  const back = await set('life', 'refs/heads/topic', { target: first })
  assert.deepEqual([back.status, back.body.code], [409, 'not_fast_forward'])
  const forced = await set('life', 'refs/heads/topic', { target: first, force: true })
  assert.equal(forced.status, 200)
  const { body: push } = await owner.get(`/repos/life/pushes/${forced.body.pushId}`)
  assert.deepEqual([push.via, push.refs[0].forced], ['api', true])
  const wrong = await owner.delete(`${pathOf('life', 'refs/heads/topic')}&expected=${second}`)
  assert.deepEqual([wrong.status, wrong.body.head], [409, first])
  const deleted = await owner.delete(`${pathOf('life', 'refs/heads/topic')}&expected=${first}`)
  assert.equal(deleted.status, 204, deleted.text)
  const gone = await owner.delete(pathOf('life', 'refs/heads/topic'))
  assert.deepEqual([gone.status, gone.body.code], [404, 'ref_absent'])
  const { body: pushes } = await owner.get('/repos/life/pushes?limit=1')
  assert.equal(pushes[0].refs[0].deleted, true)
  const undone = await owner.post(`/repos/life/pushes/${pushes[0].id}/undo`)
  assert.equal(undone.body.refs[0].after, first)
})

test('tags point to anything, branches only to commits', async () => {
  await create('kinds')
  const noted = await project.git('rev-parse', 'noted')
  const tag = await set('kinds', 'refs/tags/copy', { target: 'refs/tags/noted' })
  assert.deepEqual([tag.body.id, tag.body.type], [noted, 'tag'])
  const branch = await set('kinds', 'refs/heads/noted', { target: 'refs/tags/noted' })
  assert.deepEqual([branch.body.id, branch.body.type], [first, 'commit'])
  const tree = await set('kinds', 'refs/tags/tree2', { target: 'tree' })
  assert.equal(tree.body.type, 'tree')
  const refused = await set('kinds', 'refs/heads/tree', { target: 'tree' })
  assert.deepEqual([refused.status, refused.body.code], [422, 'ref_not_found'])
  const moved = await set('kinds', 'refs/tags/copy', { target: 'main' })
  assert.equal(moved.body.code, 'not_fast_forward')
  assert.equal((await set('kinds', 'refs/tags/copy', { target: 'main', force: true })).status, 200)
  const other = await set('kinds', 'refs/notes/x', { target: first.slice(0, 10) })
  assert.equal(other.status, 201, other.text)
})

test('names that cannot be pushed are refused, and so is the default branch’s deletion', async () => {
  await create('names')
  for (const ref of ['main', 'refs/heads/a..b', 'refs/heads/\ud800', 'refs/heads/a b', 'HEAD']) {
    const answer = await set('names', ref.toWellFormed(), { target: 'main' })
    if (ref.isWellFormed()) assert.equal(answer.body.code, 'invalid_request', ref)
  }
  for (const ref of ['refs/svc/kept/x', 'refs/replace/x', 'refs/heads/HEAD', 'refs/heads/-x'])
    assert.equal((await set('names', ref, { target: 'main' })).body.code, 'ref_name_refused', ref)
  const conflict = await set('names', 'refs/heads/main/below', { target: 'main' })
  assert.deepEqual([conflict.status, conflict.body.code], [409, 'update_refused'])
  const long = await set('names', `refs/heads/${'\u2603'.repeat(100)}`, { target: 'main' })
  assert.deepEqual([long.status, long.body.code], [403, 'ref_name_refused'])
  assert.match(long.body.detail, /has a part of more than 250 bytes/)
  const deleted = await owner.delete(pathOf('names', 'refs/heads/main'))
  assert.deepEqual([deleted.status, deleted.body.code], [409, 'default_branch_deletion'])
  for (const target of ['main~1', 'none', 'HEAD', none])
    assert.equal((await set('names', 'refs/heads/x', { target })).body.code, 'ref_not_found')
})

test('protections of branches and tags and limits of tokens hold', async () => {
  await create('rules')
  const permissions = ['repo:read', 'repo:write', 'collaborator:write']
  const ada = await service.client({ username: 'ada', permissions })
  await ada.post('/repos/rules/collaborators', { username: 'eve' })
  await ada.put('/repos/rules/protections/branches/main')
  await ada.put('/repos/rules/protections/tags/v*')
  const eve = await service.client({ username: 'eve' })
  const branch = await set('rules', 'refs/heads/main', { target: first, force: true }, eve)
  assert.equal(branch.body.code, 'branch_protected')
  const tag = await set('rules', 'refs/tags/v1', { target: first }, eve)
  assert.equal(tag.body.code, 'tag_protected')
  const { body } = await service.admin.post('/tokens', {
    ...{ name: 'agent', username: 'ada', refs: ['refs/heads/agents/*'] },
    permissions: ['repo:read', 'repo:write'],
  })
  const agent = createClient(service.url, body.token)
  const beyond = await set('rules', 'refs/heads/other', { target: first }, agent)
  assert.equal(beyond.body.code, 'token_limited')
  const own = await set('rules', 'refs/heads/agents/1', { target: first }, agent)
  assert.equal(own.status, 201, own.text)
})
