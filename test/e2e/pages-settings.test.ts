import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { assertAccessible, inEveryView } from '../support/browser.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { logIn, type PageClient } from '../support/page-client.ts'
import { without } from '../support/programs.ts'
import { type Service, startService } from '../support/service.ts'

let service: Service
let client: PageClient

const page = '/r/site/settings'

before(async () => {
  service = await startService()
  await service.admin.post('/repos', { name: 'site' })
  client = await logIn(service.url, service.adminToken)
})

after(() => service[Symbol.asyncDispose]())

test('name, description, default branch and other settings are changed one by one', async () => {
  const { admin } = service
  await client.post(`${page}/description`, { description: 'About <it>' })
  await client.post(`${page}/default-branch`, { defaultBranch: 'trunk' })
  await client.post(`${page}/leak-guard`, { leakGuard: 'off' })
  await client.post(`${page}/run-tokens`, { runTokens: 'write' })
  await client.post(`${page}/visibility`, { visibility: 'internal' })
  assert.match((await client.get('/')).text, /class="badge">internal</)
  const renamed = await client.post(`${page}/name`, { name: 'other' })
  assert.deepEqual([renamed.status, renamed.location], [303, '/r/other/settings#general'])
  const { body } = await admin.get('/repos/other')
  assert.deepEqual(
    [body.description, body.defaultBranch, body.leakGuard, body.runTokens, body.visibility],
    ['About <it>', 'trunk', false, 'write', 'internal'],
  )
  await admin.patch('/repos/other', { visibility: 'private' })
  await admin.post('/repos', { name: 'taken' })
  const taken = await client.post('/r/other/settings/name', { name: 'taken' })
  assert.equal(taken.status, 409)
  assert.match(taken.text, /role="alert"[\s\S]*value="taken"[\s\S]*About &lt;it&gt;/)
  assert.equal((await client.post('/r/other/settings/name', { name: 'site' })).status, 303)
})

test('branches and tags are protected with rules', async () => {
  await client.post(`${page}/branches`, {
    pattern: 'release/*',
    owners: 'fast-forward',
    requires: 'ci.yml\r\n\r\n',
  })
  await client.post(`${page}/tags`, { pattern: 'v*', owners: 'none' })
  const { text } = await client.get(page)
  assert.match(text, /release\/\*[\s\S]*only add commits[\s\S]*ci\.yml[\s\S]*v\*/)
  const bad = await client.post(`${page}/branches`, { pattern: 'a..b', owners: 'any' })
  assert.equal(bad.status, 400)
  assert.match(bad.text, /aria-invalid="true" value="a\.\.b"/)
  await client.post(`${page}/branches/remove`, { pattern: 'release/*' })
  await client.post(`${page}/tags/remove`, { pattern: 'v*' })
  assert.doesNotMatch((await client.get(page)).text, /release\/\*<\/b>/)
  const again = await client.post(`${page}/tags/remove`, { pattern: 'v*' })
  assert.equal(again.status, 404)
  assert.match(again.text, /role="alert"/)
})

test('collaborators are added with a role, and each sees the sections of that role', async () => {
  const { token } = await service.client({
    username: 'ada',
    permissions: ['repo:read', 'repo:write', 'collaborator:read'],
  })
  const ada = await logIn(service.url, token)
  assert.equal((await ada.get(page)).status, 404)
  await client.post(`${page}/collaborators`, { username: 'ada', role: 'read' })
  const asReader = (await ada.get(page)).text
  assert.match(asReader, /your role is <b>read<\/b>[\s\S]*Collaborators/)
  assert.doesNotMatch(asReader, /<form method="post" action="\/r/)
  assert.doesNotMatch(asReader, /Secrets/)
  await client.post(`${page}/collaborators`, { username: 'ada', role: 'maintain' })
  const asMaintainer = (await ada.get(page)).text
  assert.match(asMaintainer, /settings\/leak-guard"[\s\S]*settings\/branches"/)
  assert.doesNotMatch(asMaintainer, /settings\/(default-branch|delete|collaborators)"/)
  await client.post(`${page}/collaborators/remove`, { username: 'ada' })
  assert.equal((await ada.get(page)).status, 404)
})

test('the value of a secret is in no page, even if its form fails', async () => {
  const value = 'hush-hush-4711'
  const refused = await client.post(`${page}/secrets`, { secret: '1BAD', value })
  assert.equal(refused.status, 400)
  assert.match(refused.text, /aria-invalid="true" value="1BAD"/)
  assert.equal(refused.headers.get('cache-control'), 'no-store')
  const saved = await client.post(`${page}/secrets`, { secret: 'KEY', value })
  assert.equal(saved.status, 303)
  const { text } = await client.get(page)
  assert.match(text, /KEY<\/b>/)
  // A wrong token leads to the same question again, without the value.
  const asked = await client.post(`${page}/secrets`, { secret: 'KEY', value, _token: 'svc_no' })
  assert.equal(asked.status, 401)
  assert.match(asked.text, /<input type="hidden" name="secret" value="KEY">/)
  assert.match(asked.text, /<textarea [^>]*name="value" required/)
  for (const answer of [refused.text, text, asked.text])
    assert.doesNotMatch(answer, new RegExp(value))
  const given = await client.post(`${page}/secrets`, {
    secret: 'KEY2',
    value,
    _token: service.adminToken,
  })
  assert.equal(given.status, 303)
  const names = (await service.admin.get('/repos/site/secrets')).body
  assert.deepEqual(
    names.map(({ name }: { name: string }) => name),
    ['KEY', 'KEY2'],
  )
  assert.equal((await client.post(`${page}/secrets/remove`, { secret: 'KEY' })).status, 303)
})

test('trust rules and limits are shown in settings, and changed by forms', async () => {
  const { admin } = service
  await admin.post('/namespaces', { name: 'acme' })
  await admin.post('/repos', { name: 'acme/site' })
  const given = { name: 'ci', issuer: 'http://127.0.0.1:9', permissions: 'repo:read' }
  const rule = { ...given, claims: 'sub=repo:acme/site:*\r\n\r\nenvironment=prod' }
  const ofNamespace = '/-/trust-rules?namespace=acme'
  for (const [address, fields] of [
    ['/-/trust-rules?repository=acme%2Fsite', { ...rule, name: 'own', repositories: 'site' }],
    [ofNamespace, { ...rule, namespace: 'other' }],
    ['/-/trust-rules', { ...rule, name: 'some', namespace: 'acme', repositories: 'acme/site' }],
  ] as const) {
    const added = await client.post(address, fields)
    assert.deepEqual([added.status, added.location], [303, address], added.text)
    assert.match((await client.get(address)).text, /The trust rule is added\./)
  }
  const { body: rules } = await admin.get('/trust-rules')
  assert.deepEqual(
    rules.map((one: Record<string, unknown>) => [one.name, one.namespace, one.repositories]),
    [
      ['own', null, ['acme/site']],
      ['ci', 'acme', null],
      ['some', 'acme', ['acme/site']],
    ],
  )
  assert.deepEqual(rules[0].claims, { sub: 'repo:acme/site:*', environment: 'prod' })
  assert.match(
    (await client.get('/r/acme/site/settings')).text,
    /Of the namespace.*>ci<.*>some<[\s\S]*<b>own<[\s\S]*repository=acme%2Fsite">Add or delete/,
  )
  const bad = await client.post(ofNamespace, { ...rule, claims: 'sub' })
  assert.equal(bad.status, 400)
  assert.match(bad.text, /> Claims must have the form name=pattern/)
  const outside = await client.post(ofNamespace, { ...rule, repositories: 'site' })
  assert.match(outside.text, /> Repositories must be in the namespace &quot;acme&quot;\.</)
  const remove = '/-/trust-rules/delete?namespace=acme'
  const removed = await client.post(remove, { rule: rules[1].id })
  assert.deepEqual([removed.status, removed.location], [303, ofNamespace])
  const page = (await client.get(ofNamespace)).text
  assert.match(page, /The trust rule is deleted[\s\S]*<b>some</)
  assert.doesNotMatch(page, /<b>(ci|own)</)

  const settings = '/-/namespaces/acme/settings'
  const saved = await client.post(`${settings}/limits`, { maxRepositories: '3', maxBytes: '2GiB' })
  assert.deepEqual([saved.status, saved.location], [303, `${settings}#limits`])
  const limits = async () => {
    const { maxRepositories, maxBytes } = (await admin.get('/namespaces/acme')).body
    return [maxRepositories, maxBytes]
  }
  assert.deepEqual(await limits(), [3, 2 * 1024 ** 3])
  assert.match((await client.get(settings)).text, /<b>some<[\s\S]*value="3"[\s\S]*value="2GiB"/)
  const refused = await client.post(`${settings}/limits`, { maxRepositories: 'x', maxBytes: '1' })
  assert.match(refused.text, /> Most repositories must be /)
  const sized = await client.post(`${settings}/limits`, { maxBytes: '2 boxes' })
  assert.match(sized.text, /> Most bytes must be a number of bytes, or one with KiB/)
  await client.post(`${settings}/limits`, { maxRepositories: '', maxBytes: '0' })
  assert.deepEqual(await limits(), [null, 0])
  // A member with the role admin sees the rules, and no limits to set; one with less sees neither.
  const { token } = await service.client({ username: 'zed', permissions: ['everything'] })
  const zed = await logIn(service.url, token)
  for (const role of ['admin', 'maintain']) {
    await admin.put('/namespaces/acme/members/zed', { role })
    const { text } = await zed.get(settings)
    assert.equal(/<b>some</.test(text), role === 'admin')
    assert.doesNotMatch(text, /Most bytes/)
    assert.equal((await zed.get(ofNamespace)).status, role === 'admin' ? 200 : 403)
  }
  assert.equal((await zed.post(`${settings}/limits`, { maxBytes: '9' })).status, 403)
  assert.equal((await zed.post(remove, { rule: rules[2].id })).status, 404)
})

test('a repository is deleted only when its name is typed', async () => {
  await service.admin.post('/repos', { name: 'short-lived' })
  const address = '/r/short-lived/settings/delete'
  const refused = await client.post(address, { confirm: 'short' })
  assert.equal(refused.status, 400)
  assert.match(refused.text, /aria-invalid="true" value="short"/)
  assert.match(refused.text, /> The name does not match; nothing was deleted\.</)
  const deleted = await client.post(address, { confirm: 'short-lived' })
  assert.deepEqual([deleted.status, deleted.location], [303, '/-/deleted'])
  assert.equal((await client.get('/r/short-lived/settings')).status, 404)
})

test('a repository is created with a visibility, and transferred to a user who exists', async () => {
  await client.post('/-/new', { name: 'given', visibility: 'internal' })
  const address = '/r/given/settings/owner'
  const refused = await client.post(address, { ownerUsername: 'nobody' })
  assert.equal(refused.status, 400)
  assert.match(refused.text, /aria-invalid="true" value="nobody"/)
  await service.client({ username: 'ada' })
  const given = await client.post(address, { ownerUsername: 'ada' })
  assert.deepEqual([given.status, given.location], [303, '/'])
  assert.match((await client.get('/')).text, /The repository is transferred\./)
  const { body } = await service.admin.get('/repos/given')
  assert.deepEqual([body.ownerUsername, body.visibility], ['ada', 'internal'])
})

test('the settings are accessible in every view', {
  ...exhaustive,
  skip: without('chromium'),
}, async () => {
  await client.post(`${page}/branches`, { pattern: 'main', owners: 'any' })
  await inEveryView({ url: service.url, token: service.adminToken }, async (shown) => {
    await shown.goto(page)
    await assertAccessible(shown)
    for (const summary of await shown.locator('details.add > summary').all()) await summary.click()
    await assertAccessible(shown)
  })
})
