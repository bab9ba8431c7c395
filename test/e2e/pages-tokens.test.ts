import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { assertAccessibleInEveryView } from '../support/browser.ts'
import { until } from '../support/condition.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { logIn } from '../support/page-client.ts'
import { without } from '../support/programs.ts'
import { createClient, type Service, startService } from '../support/service.ts'
import { newKeyLine } from '../support/ssh-keys.ts'

let service: Service

before(async () => {
  service = await startService()
  await service.admin.post('/repos', { name: 'site' })
})

after(() => service[Symbol.asyncDispose]())

test('a new token is shown once, works, and is deleted', async () => {
  const client = await logIn(service.url, service.adminToken)
  const created = await client.post('/-/tokens/new', {
    name: 'laptop <b>',
    username: 'admin',
    permissions: 'repo:read',
    repositories: 'site\n',
    refs: 'refs/heads/a*',
    expires: '1h',
  })
  // A page of its own: loading it again creates no second token, nor does it show this one again.
  assert.deepEqual([created.status, created.location], [303, '/-/tokens'])
  const { status, text, headers } = await client.get('/-/tokens')
  assert.deepEqual([status, headers.get('cache-control')], [200, 'no-store'])
  const token = /<code>(svc_\w+)<\/code>/.exec(text)?.[1] ?? ''
  assert.match(text, /laptop &lt;b&gt;/)
  const { body } = await createClient(service.url, token).get('/repos')
  assert.deepEqual(
    body.map(({ name }: { name: string }) => name),
    ['site'],
  )
  const list = await client.get('/-/tokens')
  assert.match(list.text, /laptop &lt;b&gt;[\s\S]*Only <a href="\/r\/site">site<\/a>/)
  assert.doesNotMatch(list.text, new RegExp(token))
  const id = /action="\/-\/tokens\/(\w+)\/delete"/.exec(list.text)?.[1]
  const deleted = await client.post(`/-/tokens/${id}/delete`, {})
  assert.deepEqual([deleted.status, deleted.location], [303, '/-/tokens'])
  assert.equal((await createClient(service.url, token).get('/repos')).status, 401)
})

test('who is no admin delegates a part of the rights', async () => {
  const { token } = await service.client({ username: 'grace', permissions: ['repo:read'] })
  const client = await logIn(service.url, token)
  assert.equal((await client.get('/-/tokens/new')).status, 403)
  const form = await client.get('/-/tokens/delegate')
  assert.match(form.text, /value="repo:read" checked/)
  assert.doesNotMatch(form.text, /value="repo:write"/)
  const more = await client.post('/-/tokens/delegate', { name: 'x', permissions: 'repo:write' })
  assert.equal(more.status, 403)
  assert.match(more.text, /role="alert"[\s\S]*value="x"/)
  await client.post('/-/tokens/delegate', { name: 'agent', permissions: 'repo:read' })
  assert.match((await client.get('/-/tokens')).text, /<code>svc_/)
  const list = await client.get('/-/tokens')
  assert.match(list.text, /This session[\s\S]*agent/)
  const id = /tokens\/delegated\/(\w+)\/delete/.exec(list.text)?.[1]
  assert.equal((await client.post(`/-/tokens/delegated/${id}/delete`, {})).status, 303)
  assert.doesNotMatch((await client.get('/-/tokens')).text, /agent/)
})

test('a field that is refused says so, and the form keeps the others', async () => {
  const client = await logIn(service.url, service.adminToken)
  const { status, text } = await client.post('/-/tokens/new', {
    name: 'kept',
    username: '-bad',
    permissions: 'repo:delete',
    refs: 'refs/heads/x',
  })
  assert.equal(status, 400)
  assert.match(text, /value="kept"/)
  assert.match(text, /aria-invalid="true" value="-bad"/)
  assert.match(text, /class="field-problem"[^>]*>[\s\S]*User cannot be /)
  assert.match(text, /value="repo:delete" checked/)
  assert.match(text, />\nrefs\/heads\/x<\/textarea>/)
})

test('keys are added with their comment as name, listed and deleted', async () => {
  const client = await logIn(service.url, service.adminToken)
  for (const name of ['x', '']) {
    const bad = await client.post('/-/keys', { publicKey: 'no key', name })
    assert.equal(bad.status, 400)
    assert.match(bad.text, /no key<\/textarea>\s*<p class="field-problem"/)
  }
  const line = `${newKeyLine().split(' ').slice(0, 2).join(' ')} ada@laptop`
  const deployKey = { publicKey: line, repositories: 'site' }
  assert.equal((await client.post('/-/keys', deployKey)).status, 303)
  const { text } = await client.get('/-/keys')
  assert.match(text, /ada@laptop[\s\S]*SHA256:[\s\S]*Only <a href="\/r\/site">site<\/a>/)
  const id = /keys\/(\w+)\/delete/.exec(text)?.[1]
  assert.equal((await client.post(`/-/keys/${id}/delete`, {})).status, 303)
  const again = await client.post(`/-/keys/${id}/delete`, {})
  assert.equal(again.status, 404)
  assert.match(again.text, /role="alert"/)
})

test('sessions are listed with their device, and others are ended', async () => {
  const { token } = await service.client({ username: 'linnea' })
  const [one, other, third] = await Promise.all([1, 2, 3].map(() => logIn(service.url, token)))
  assert.ok(one && other && third)
  const { text } = await one.get('/-/sessions')
  assert.match(text, /node[\s\S]*this session/)
  const id = /sessions\/(\w+)\/end"/.exec(text)?.[1]
  assert.equal((await one.post(`/-/sessions/${id}/end`, {})).status, 303)
  const states = async () => [(await other.get('/')).status, (await third.get('/')).status].sort()
  assert.deepEqual(await states(), [200, 303])
  await one.post('/-/sessions/end-others', {})
  assert.deepEqual(await states(), [303, 303])
  assert.equal((await one.get('/')).status, 200)
})

test('a deleted repository is restored under another name, or removed for good', async () => {
  const { admin } = service
  const client = await logIn(service.url, service.adminToken)
  for (const name of ['gone', 'lost']) {
    await admin.post('/repos', { name })
    await admin.delete(`/repos/${name}`)
  }
  const [gone, lost] = (await admin.get('/deleted-repos')).body
  const taken = await client.post(`/-/deleted/${gone.id}/restore`, { name: 'site' })
  assert.equal(taken.status, 409)
  assert.match(taken.text, /<details class="fold" open>/)
  const restored = await client.post(`/-/deleted/${gone.id}/restore`, { name: 'back' })
  assert.deepEqual([restored.status, restored.location], [303, '/r/back'])
  const purge = `/-/deleted/${lost.id}/purge`
  assert.equal((await client.post(purge, { name: 'lost', confirm: 'los' })).status, 400)
  assert.equal((await client.post(purge, { name: 'lost', confirm: 'lost' })).status, 303)
  assert.deepEqual((await admin.get('/deleted-repos')).body, [])
})

test('the audit log is filtered, and a filter that cannot be used says so', async () => {
  const client = await logIn(service.url, service.adminToken)
  const all = await client.get('/-/audit?repository=site&action=repository.created&via=')
  assert.match(all.text, /<b>repository\.created<\/b>/)
  const bad = await client.get('/-/audit?username=-&repository=nope')
  assert.equal(bad.status, 400)
  assert.match(bad.text, /role="alert"/)
  const { token } = await service.client({ username: 'grace' })
  assert.equal((await (await logIn(service.url, token)).get('/-/audit')).status, 403)
})

test('an import that fails says why on the page of the repository, and is dismissed', async () => {
  const client = await logIn(service.url, service.adminToken)
  const source = 'http://ada:hush@127.0.0.1:9/x'
  const refused = await client.post('/-/new/import', { source, name: 'site' })
  assert.equal(refused.status, 409)
  assert.match(refused.text, /role="alert"[\s\S]*value="http:\/\/ada@127.0.0.1:9\/x"/)
  assert.doesNotMatch(refused.text, /hush/)
  const started = await client.post('/-/new/import', { source, name: 'copy' })
  assert.deepEqual([started.status, started.location], [303, '/r/copy'])
  await until('the import has failed', async () =>
    (await client.get('/r/copy')).text.includes('The import has failed'),
  )
  const { text } = await client.get('/r/copy')
  assert.doesNotMatch(text, /hush/)
  assert.match(text, /href="\/-\/new\?source=/)
  const { token } = await service.client({ username: 'admin', permissions: ['repo:read'] })
  const denied = await (await logIn(service.url, token)).post('/r/copy/cancel-import', {})
  assert.equal(denied.status, 403)
  assert.match(denied.text, /role="alert"[\s\S]*The import has failed/)
  assert.equal((await client.post('/r/copy/cancel-import', {})).location, '/')
  assert.equal((await client.get('/r/copy')).status, 404)
})

test('the pages of tokens, keys, sessions and the log are accessible in every view', {
  ...exhaustive,
  skip: without('chromium'),
}, async () => {
  await assertAccessibleInEveryView(service, ['/-/new', '/-/tokens/new', '/-/sessions', '/-/audit'])
})
