// Tags: each-store
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { logIn } from '../support/page-client.ts'
import { mustClaim, wholeRun } from '../support/run-by-hand.ts'
import { type Client, type Service, startService } from '../support/service.ts'
import { pushFiles } from '../support/workflow-site.ts'

let service: Service
let owner: Client
let commit: string

const statusesOf = (id: string, name = 'site') => `/repos/${name}/commits/${id}/statuses`

before(async () => {
  service = await startService()
  owner = await service.client({ username: 'ada', permissions: ['everything'] })
  commit = await pushFiles(owner, 'site', {
    '.svc/workflows/ci.yml': 'on: push\nsteps:\n  - run: true\n',
  })
})

after(() => service[Symbol.asyncDispose]())

test('the last status of each context and user is listed beside the runs of the commit', async () => {
  const ci = await service.client({ username: 'jenkins', permissions: ['ci'] })
  assert.equal((await ci.post(statusesOf(commit), {})).status, 404)
  await owner.post('/repos/site/collaborators', { username: 'jenkins', role: 'write' })
  const build = { context: 'ci/build', state: 'pending' }
  const { status, body } = await ci.post(statusesOf(commit), build)
  assert.equal(status, 201)
  const { createdAt, ...rest } = body
  assert.equal(typeof createdAt, 'number')
  const nothing = { description: '', targetUrl: null, run: null }
  assert.deepEqual(rest, { ...build, ...nothing, username: 'jenkins' })
  const done = { state: 'failure', description: 'A test fails.', targetUrl: 'https://ci.example/1' }
  await ci.post(statusesOf(commit), { ...build, ...done })
  await owner.post(statusesOf(commit), { ...build, state: 'success' })
  const { body: runs } = await owner.get('/repos/site/workflows')
  const shown = async () =>
    (await owner.get(statusesOf(commit))).body.map(
      ({ createdAt: _, run, targetUrl, ...one }: Record<string, unknown>) => ({
        ...one,
        ...(run === null ? { targetUrl } : { run }),
      }),
    )
  const byOwner = { ...build, state: 'success', description: '', targetUrl: null, username: 'ada' }
  const byCi = { ...build, ...done, username: 'jenkins' }
  const { id, number, name } = runs[0]
  const ofRun = { context: '.svc/workflows/ci.yml', description: '', username: 'ada' }
  const run = { id, number, name }
  assert.deepEqual(await shown(), [byOwner, byCi, { ...ofRun, state: 'pending', run }])
  await (await mustClaim(service.admin)).report(...wholeRun())
  assert.deepEqual((await shown()).at(-1), { ...ofRun, state: 'success', run })
  const page = await logIn(service.url, owner.token)
  const { text } = await page.get(`/r/site/commit/${commit}`)
  assert.match(text, /Succeeded.*ci\/build.*by ada.*Failed.*ci\/build.*A test fails\., by jenkins/s)
  assert.match(text, /href="https:\/\/ci\.example\/1"/)
})

test('a status is refused for what is no commit of the repository, and in another form', async () => {
  const { id: tree } = (await owner.get('/repos/site/tree')).body
  const good = { context: 'x', state: 'success' }
  for (const id of ['main', commit.slice(0, 7), tree, 'f'.repeat(40), '-h']) {
    const { status, body } = await owner.post(statusesOf(id), good)
    assert.deepEqual([status, body.code], [404, 'revision_not_found'], id)
    assert.deepEqual((await owner.get(statusesOf(id))).status, id.length < 40 ? 404 : 200, id)
  }
  for (const wrong of [
    {},
    { context: '' },
    { context: 'a\nb' },
    { context: 'x'.repeat(201) },
    { state: 'done' },
    { targetUrl: 'javascript:alert(1)' },
    { description: 'x'.repeat(501) },
    { by: 'admin' },
  ]) {
    const sent = Object.keys(wrong).length === 0 ? wrong : { ...good, ...wrong }
    const { status, body } = await owner.post(statusesOf(commit), sent)
    assert.deepEqual([status, body.code], [400, 'invalid_request'], JSON.stringify(wrong))
  }
})
