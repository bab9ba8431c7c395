import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { until } from '../support/condition.ts'
import { freePort } from '../support/free-port.ts'
import { createProject } from '../support/git.ts'
import { logIn, type PageClient } from '../support/page-client.ts'
import { createClient, type Service, startService } from '../support/service.ts'

let service: Service
let client: PageClient

before(async () => {
  service = await startService({ env: { SVC_WEBHOOK_RETRY_SCHEDULE: '0,3600' } })
  const { admin } = service
  await admin.post('/repos', { name: 'site' })
  const content = 'on: push\nsteps: [{ run: "true" }]\n'
  const changes = [{ path: '.svc/workflows/ci.yml', content }]
  await admin.post('/repos/site/commits', { branch: 'main', message: 'Start', changes })
  client = await logIn(service.url, service.adminToken)
})

after(() => service[Symbol.asyncDispose]())

test('a collaborator whose name no token or key has is marked until one has it', async () => {
  const { admin } = service
  for (const username of ['ada', 'grace'])
    await admin.post('/repos/site/collaborators', { username, role: 'read' })
  const marked = /<b>(\w+)<\/b> <span class="badge busy">[^>]*>(?:(?!<\/span>).)*unknown/gs
  const namesMarked = async () =>
    [...(await client.get('/r/site/settings')).text.matchAll(marked)].map(([, name]) => name)
  assert.deepEqual(await namesMarked(), ['ada', 'grace'])
  const { token } = await service.client({ username: 'ada', permissions: ['collaborator:read'] })
  assert.deepEqual(await namesMarked(), ['grace'])
  // What a token that is limited to repositories may not learn, it is not shown.
  const limited = await admin.post('/tokens', {
    name: 'x',
    username: 'ada',
    permissions: ['collaborator:read'],
    repositories: ['site'],
  })
  const listed = async (bearer: string) =>
    (await createClient(service.url, bearer).get('/repos/site/collaborators')).body.unknownUsernames
  assert.deepEqual(await listed(token), ['grace'])
  assert.deepEqual(await listed(limited.body.token), [])
})

test('what rules require although it is not there is a warning', async () => {
  const put = (kind: string, requires: string[]) =>
    service.admin.put(`/repos/site/protections/${kind}`, { requires })
  await put('branches/main', ['ci.yml'])
  const settings = async () => (await client.get('/r/site/settings')).text
  assert.doesNotMatch(await settings(), /The default branch has no/)
  await put('branches/release', ['ci.yml', 'gone.yml'])
  await put('tags/v*', ['also-gone.yml'])
  const page = '/r/site/settings/branches'
  await client.post(page, { pattern: 'x', owners: 'any', requires: 'status: <b> by ada, bob\r\n' })
  const text = await settings()
  assert.match(text, /release&quot;: the default branch has no \.svc\/workflows\/gone\.yml,/)
  assert.match(text, /v\*&quot;: the default branch has no \.svc\/workflows\/also-gone\.yml,/)
  assert.match(text, /with the status <code>&lt;b&gt;<\/code> by ada or bob</)
  assert.match(
    text,
    /x&quot;: the status &quot;&lt;b&gt;&quot; by ada or bob has never been reported/,
  )
  const refused = { pattern: 'x', owners: 'any', requires: 'ci.yml from main' }
  assert.match(
    (await client.post(page, refused)).text,
    />\s*ci\.yml from main<\/textarea>[\s\S]*full name of a branch or tag/,
  )
  await service.admin.delete('/repos/site/protections/branches/main')
})

test('a delivery that is tried again after it has failed is red, and among those that failed', async () => {
  const { admin } = service
  const url = `http://127.0.0.1:${await freePort()}/`
  const { body } = await admin.post('/repos/site/webhooks', { url, events: ['push'] })
  const changes = [{ path: 'a.txt', content: 'a' }]
  await admin.post('/repos/site/commits', { branch: 'main', message: 'Next', changes })
  const page = `/r/site/webhooks/${body.id}`
  await until('the delivery has failed once', async () => {
    const [delivery] = (await admin.get(`/repos${page.slice(2)}/deliveries`)).body
    return delivery?.error !== null && delivery?.status === 'pending'
  })
  for (const address of [page, `${page}?status=failed`])
    assert.match((await client.get(address)).text, /<td><span class="badge bad">.*failing</)
  assert.doesNotMatch((await client.get(`${page}?status=success`)).text, /badge bad">[^>]*again/)
  const list = (await client.get('/r/site/webhooks')).text
  assert.match(list, /aria-label="1 failing[\s\S]*tick-bad[\s\S]*badge bad/)
})

test('a push names its token or key to admins and to its user, and to no one else', async () => {
  const { admin, url } = service
  const made = await admin.post('/tokens', { name: 'laptop of Linnea', username: 'linnea' })
  await admin.post('/repos/site/collaborators', { username: 'linnea', role: 'write' })
  const linnea = createClient(url, made.body.token)
  const changes = [{ path: 'b.txt', content: 'b' }]
  await linnea.post('/repos/site/commits', {
    branch: 'side',
    message: 'Side',
    changes,
    start: 'main',
  })
  const id = await until('the journal has the push', async () => {
    const { body } = await admin.get('/repos/site/pushes?ref=refs/heads/side')
    return body[0]?.id
  })
  const page = `/r/site/pushes/${id}`
  assert.match((await client.get(page)).text, /Token or key<\/dt><dd><b>laptop of Linnea<\/b>/)
  const own = await logIn(url, made.body.token)
  assert.match((await own.get(page)).text, /<b>laptop of Linnea<\/b>/)
  const other = await admin.post('/tokens', { name: 'x', username: 'ada' })
  const foreign = (await (await logIn(url, other.body.token)).get(page)).text
  assert.match(foreign, /Push by linnea/)
  assert.doesNotMatch(foreign, /laptop of Linnea/)
  await admin.delete(`/tokens/${made.body.id}`)
  assert.match((await client.get(page)).text, new RegExp(`<code>${made.body.id}</code>`))
})

test('a repository that was imported is so in the list, until it is pushed to', async () => {
  const { admin } = service
  await using project = await createProject()
  const imported = await admin.post('/repos/import', { source: project.path, name: 'copy' })
  assert.equal(imported.status, 201, imported.text)
  await admin.post('/repos', { name: 'fresh' })
  const row = async (name: string) =>
    new RegExp(`href="/r/${name}">[\\s\\S]*?</tr>`).exec((await client.get('/')).text)?.[0] ?? ''
  assert.match(await row('copy'), />imported <time/)
  assert.match(await row('fresh'), />never</)
  const changes = [{ path: 'c.txt', content: 'c' }]
  await admin.post('/repos/copy/commits', { branch: 'main', message: 'Pushed', changes })
  await until('the push is known', async () => !/imported/.test(await row('copy')))
})
