// Tags: each-store
import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { until } from '../support/condition.ts'
import { createProject, git, type Project } from '../support/git.ts'
import { type Client, type Service, startService } from '../support/service.ts'

let service: Service
let ada: Client
let bob: Client
let project: Project

before(async () => {
  service = await startService()
  ada = await service.client({ username: 'ada', permissions: ['everything'] })
  bob = await service.client({ username: 'bob', permissions: ['everything'] })
  project = await createProject()
  await ada.post('/repos', { name: 'site' })
  await project.git('push', '--quiet', ada.remote('site'), 'HEAD:main')
  await ada.post('/repos/site/collaborators', { username: 'bob', role: 'read' })
})

after(async () => {
  await project[Symbol.asyncDispose]()
  await service[Symbol.asyncDispose]()
})

const changeOf = (number: number) => `/repos/site/changes/${number}`

/** Bob proposes a commit with a new file, on another one. Returns the number of the change. */
async function propose(file: string, onto: string, topic = file): Promise<number> {
  await project.git('checkout', '--quiet', '--force', '--detach', onto)
  await writeFile(join(project.path, file), `${file}\n`)
  await project.git('add', '.')
  await project.git('commit', '--quiet', '-m', `Add ${file}`)
  const push = ['push', '-o', `topic=${topic}`, bob.remote('site'), 'HEAD:refs/for/main']
  const { stderr } = await git(project.path, push)
  return Number(/Change (\d+)/.exec(stderr)?.[1])
}

async function get(number: number) {
  return (await ada.get(changeOf(number))).body
}

const land = (number: number, method = 'merge') => ada.post(`${changeOf(number)}/land`, { method })

const verdict = (number: number, given: string) =>
  ada.put(`${changeOf(number)}/verdict`, { verdict: given, version: 1 })

test('changes land with the one that is built on them, unless changes of them are requested', async () => {
  const below = await propose('wall.txt', 'main')
  const above = await propose('roof.txt', 'HEAD')
  const other = await propose('pond.txt', 'main')
  assert.deepEqual([(await get(above)).buildsOn, (await get(above)).builtUponBy], [[below], []])
  assert.deepEqual([(await get(below)).buildsOn, (await get(below)).builtUponBy], [[], [above]])
  assert.deepEqual((await get(other)).buildsOn, [])
  await ada.put('/repos/site/protections/branches/main', { approvals: 1 })
  await verdict(above, 'approve')
  await verdict(below, 'request-changes')
  const refused = await land(above)
  assert.deepEqual([refused.status, refused.body.code], [403, 'approval_required'])
  const why = `ada requests changes of change ${below}, on which it is built.`
  assert.ok(refused.body.detail.includes(why), refused.body.detail)
  assert.ok((await get(above)).missing[0].detail.includes(why))
  await verdict(below, 'none')
  assert.equal((await land(above)).status, 200)
  const [lower, upper] = [await get(below), await get(above)]
  assert.deepEqual([lower.state, lower.closedBy, lower.pushId], ['landed', 'ada', upper.pushId])
  assert.equal(lower.queueNote, `It landed with change ${above}, which is built on it.`)
  assert.equal((await get(other)).state, 'open')
  const path = `/repos/site/pushes/${upper.pushId}`
  assert.deepEqual((await ada.get(path)).body.changes, [below, above])
  assert.equal((await ada.post(`${path}/undo`)).status, 200)
  for (const number of [below, above]) {
    const { state, closedBy, landedCommit, pushId } = await get(number)
    assert.deepEqual([state, closedBy, landedCommit, pushId], ['open', null, null, null])
  }
  const { body: events } = await ada.get('/events?limit=1000')
  const reopened = events
    .filter(({ kind }: { kind: string }) => kind === 'change.updated')
    .map(({ data }: { data: { number: number; state: string } }) => [data.number, data.state])
  assert.deepEqual(reopened, [
    [below, 'open'],
    [above, 'open'],
  ])
  assert.equal((await land(above, 'squash')).status, 200)
  assert.equal((await get(below)).state, 'landed')
})

test('the queue lands what a change is built on', async () => {
  await project.git('fetch', '--quiet', ada.remote('site'), 'main')
  await project.git('branch', '--force', 'main', 'FETCH_HEAD')
  await ada.delete('/repos/site/protections/branches/main')
  await ada.put('/repos/site/protections/branches/main', { queue: true })
  const below = await propose('hall.txt', 'main')
  const above = await propose('loft.txt', 'HEAD')
  assert.equal((await land(above)).status, 200)
  const landed = await until('it has landed', async () => {
    const change = await get(above)
    return change.state === 'landed' ? change : undefined
  })
  const lower = await get(below)
  assert.deepEqual([lower.state, lower.pushId, lower.closedBy], ['landed', landed.pushId, 'ada'])
  await ada.delete('/repos/site/protections/branches/main')
})

test('a title follows the commits until a user gives one', async () => {
  const number = await propose('one.txt', 'main', 'title')
  assert.equal(await propose('two.txt', 'main', 'title'), number)
  assert.equal((await get(number)).title, 'Add two.txt')
  await ada.patch(changeOf(number), { title: 'Add all' })
  await propose('three.txt', 'main', 'title')
  assert.equal((await get(number)).title, 'Add all')
})
