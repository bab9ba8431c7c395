// Tags: each-store
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { createProject, type Project } from '../support/git.ts'
import { type Client, type Service, startService } from '../support/service.ts'

let service: Service
let project: Project
let owner: Client

before(async () => {
  service = await startService()
  project = await createProject()
  owner = await service.client({ username: 'ada' })
  await owner.post('/repos', { name: 'site' })
})

after(async () => {
  await service[Symbol.asyncDispose]()
  await project[Symbol.asyncDispose]()
})

async function detailsOf(name: string) {
  const { body } = await owner.get(`/repos/${name}`)
  const listed = (await owner.get('/repos')).body.find((one: { name: string }) => one.name === name)
  for (const field of ['ownerUsername', 'description', 'pushedAt'])
    assert.equal(listed[field], body[field])
  return body
}

test('a repository has a description, which is an event', async () => {
  const created = await detailsOf('site')
  assert.deepEqual([created.description, created.ownerUsername], ['', 'ada'])
  const text = `Der Fuß: 日本 ${'😀'.repeat(330)}`
  for (const description of [text, 'x'.repeat(350), 'Our site', 'Our site']) {
    const { status, body } = await owner.patch('/repos/site', { description })
    assert.deepEqual([status, body.description], [200, description])
    assert.equal((await detailsOf('site')).description, description)
  }
  const { body: events } = await owner.get('/events?kind=repository.description')
  assert.deepEqual(
    events.map(({ data }: { data: { description: string } }) => data.description),
    [text, 'x'.repeat(350), 'Our site'],
  )
  assert.equal((await owner.patch('/repos/site', { description: '' })).body.description, '')
})

test('a description that is too long or has control characters is refused', async () => {
  for (const description of ['x'.repeat(351), '😀'.repeat(351), 'a\nb', 'a\u0000', null, 7]) {
    const { status, body } = await owner.patch('/repos/site', { description })
    assert.deepEqual([status, body.errors[0].pointer], [400, '/description'])
  }
})

test('name and description change together, or not at all', async () => {
  await owner.post('/repos', { name: 'taken' })
  await owner.post('/repos', { name: 'before' })
  const refused = await owner.patch('/repos/before', { name: 'taken', description: 'new' })
  assert.equal(refused.status, 409)
  assert.equal((await detailsOf('before')).description, '')
  const { body } = await owner.patch('/repos/before', { name: 'after', description: 'new' })
  assert.deepEqual([body.name, body.description], ['after', 'new'])
})

test('pushedAt is the time of the last push or undo', async () => {
  assert.equal((await detailsOf('site')).pushedAt, null)
  await owner.patch('/repos/site', { description: 'not a push' })
  assert.equal((await detailsOf('site')).pushedAt, null)
  for (const branch of ['main', 'other']) {
    await project.git('push', '--quiet', owner.remote('site'), `HEAD:${branch}`)
    const [last] = (await owner.get('/repos/site/pushes')).body
    assert.equal((await detailsOf('site')).pushedAt, last.pushedAt)
  }
  const [last] = (await owner.get('/repos/site/pushes')).body
  const { body: undo } = await owner.post(`/repos/site/pushes/${last.id}/undo`)
  assert.equal((await detailsOf('site')).pushedAt, undo.pushedAt)
  await owner.patch('/repos/site', { defaultBranch: 'main' })
  assert.equal((await detailsOf('site')).pushedAt, undo.pushedAt)
})
