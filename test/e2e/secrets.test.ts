import assert from 'node:assert/strict'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { runSvc } from '../support/command.ts'
import { type Client, type Service, startService, toAnswer } from '../support/service.ts'

let service: Service
let owner: Client

before(async () => {
  service = await startService({ env: { SVC_LOG_LEVEL: 'debug' } })
  owner = await service.client({
    username: 'ada',
    permissions: ['repo:read', 'repo:write', 'repo:delete', 'secrets:read', 'secrets:write'],
  })
  await owner.post('/repos', { name: 'site' })
})

after(() => service[Symbol.asyncDispose]())

const put = (value: unknown, name = 'TOKEN', client = owner) =>
  client.put(`/repos/site/secrets/${name}`, { value })

test('a secret is created, replaced, listed without its value, and deleted', async () => {
  const saved = await put('first')
  assert.equal(saved.status, 200)
  assert.deepEqual(Object.keys(saved.body), ['name', 'repoName', 'message'])
  assert.deepEqual([saved.body.name, saved.body.repoName], ['TOKEN', 'site'])
  const [made] = (await owner.get('/repos/site/secrets')).body
  await put('second')
  await put('x', 'OTHER')
  const { body } = await owner.get('/repos/site/secrets')
  assert.deepEqual(
    body.map(({ name }: { name: string }) => name),
    ['TOKEN', 'OTHER'],
  )
  assert.deepEqual(Object.keys(body[0]), ['name', 'repoName', 'createdAt', 'updatedAt'])
  assert.equal(body[0].createdAt, made.createdAt)
  assert.ok(body[0].updatedAt >= made.updatedAt && made.updatedAt === made.createdAt)
  await owner.patch('/repos/site', { name: 'page' })
  assert.equal((await owner.get('/repos/page/secrets')).body[0].repoName, 'page')
  await owner.patch('/repos/page', { name: 'site' })
  for (const name of ['TOKEN', 'OTHER']) {
    const gone = await owner.delete(`/repos/site/secrets/${name}`)
    assert.deepEqual([gone.status, gone.text], [204, ''])
    assert.equal((await owner.delete(`/repos/site/secrets/${name}`)).status, 404)
  }
  assert.deepEqual((await owner.get('/repos/site/secrets')).body, [])
})

test('the list is paginated', async () => {
  for (const name of ['A', 'B', 'C']) await put('x', name)
  const first = await owner.get('/repos/site/secrets?limit=2')
  const [, next = ''] = /^<([^>]+)>; rel="next"$/.exec(first.headers.get('link') ?? '') ?? []
  const second = await owner.get(next)
  const names = [...first.body, ...second.body].map(({ name }) => name)
  assert.deepEqual([names, second.headers.get('link')], [['A', 'B', 'C'], null])
  for (const name of names) await owner.delete(`/repos/site/secrets/${name}`)
})

test('a value of 1 byte to 48 KiB in UTF-8 is unchanged, others are rejected', async () => {
  for (const value of ['x', 'x'.repeat(49_152), 'ä'.repeat(24_576), ' \n\t', '\ufeff"\\']) {
    assert.equal((await put(value)).status, 200, value.slice(0, 9))
  }
  const refused = [
    '',
    'x'.repeat(49_153),
    `${'ä'.repeat(24_576)}x`,
    'a\0b',
    '\ud800',
    1,
    null,
    ['x'],
  ]
  for (const value of refused) {
    const { status, body } = await put(value)
    assert.deepEqual(
      [status, body.code, body.errors?.[0].pointer],
      [400, 'invalid_request', '/value'],
    )
    assert.match(body.detail, /1 byte to 48 KiB in UTF-8/)
  }
  assert.equal((await owner.delete('/repos/site/secrets/TOKEN')).status, 204)
})

test('a name that steps cannot use is rejected, and never found', async () => {
  for (const name of [
    'A-B',
    '1A',
    'x'.repeat(101),
    'PATH',
    'svc_x',
    'GITHUB_TOKEN',
    '%00',
    '%20',
    'A%2FB',
  ]) {
    const { status, body } = await put('x', name)
    assert.deepEqual(
      [status, body.code, body.errors?.[0].parameter],
      [400, 'invalid_request', 'secretName'],
    )
    const missing = await owner.delete(`/repos/site/secrets/${name}`)
    assert.deepEqual([missing.status, missing.body.code], [404, 'secret_not_found'])
  }
  await put('x', 'Case')
  assert.equal((await owner.delete('/repos/site/secrets/CASE')).status, 404)
  assert.equal((await owner.delete('/repos/site/secrets/Case')).status, 204)
})

test('permissions are independent, and a collaborator may use those of the token', async () => {
  await owner.post('/repos/site/collaborators', { username: 'grace' })
  await service.admin.post('/repos/site/collaborators', { username: 'grace' })
  const as = (username: string, ...permissions: string[]) =>
    service.client({ username, permissions })
  const [reader, writer] = [await as('grace', 'secrets:read'), await as('grace', 'secrets:write')]
  const statusOf = async (client: Client) => [
    (await client.get('/repos/site/secrets')).status,
    (await put('x', 'TOKEN', client)).status,
    (await client.delete('/repos/site/secrets/TOKEN')).status,
  ]
  assert.deepEqual(await statusOf(reader), [200, 403, 403])
  assert.deepEqual(await statusOf(writer), [403, 200, 204])
  assert.deepEqual(
    await statusOf(await as('eve', 'secrets:read', 'secrets:write')),
    [404, 404, 404],
  )
  assert.deepEqual(await statusOf(await as('ada', 'repo:read', 'repo:write')), [403, 403, 403])
})

test('concurrent saves leave one secret; with a concurrent deletion one or none', async () => {
  for (let round = 0; round < 10; round++) {
    const answers = await Promise.all([
      put('one'),
      put('two'),
      owner.delete('/repos/site/secrets/TOKEN'),
    ])
    const statuses = answers.map(({ status }) => status)
    assert.deepEqual(statuses.slice(0, 2), [200, 200])
    assert.ok([204, 404].includes(statuses[2] ?? 0))
    assert.ok((await owner.get('/repos/site/secrets')).body.length <= 1)
  }
  await owner.delete('/repos/site/secrets/TOKEN')
})

test('a value appears nowhere in plain text: in no response, log, event, or file of the data directory', async () => {
  const mark = 'hush-4f1b2c'
  const answers = [
    await put(mark),
    await put(`${mark}\0`),
    await put(mark, 'PATH'),
    await put({ x: mark }),
  ]
  answers.push(await owner.put('/repos/site/secrets/TOKEN', { value: 'x', more: mark }))
  answers.push(await owner.put('/repos/site/secrets/TOKEN', mark))
  for (const body of [`{"value": ${mark}`, `"${mark}"`, `{"value":"${mark}"`, mark]) {
    const headers = { authorization: `Bearer ${owner.token}`, 'content-type': 'application/json' }
    const address = `${service.url}/repos/site/secrets/TOKEN`
    answers.push(await toAnswer(await fetch(address, { method: 'PUT', headers, body })))
  }
  const gone = await service.client({ username: 'ada', permissions: ['repo:read'] })
  answers.push(await put(mark, 'TOKEN', gone), await owner.get('/repos/site/secrets'))
  assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([200, 400, 403]))
  for (const { text, status } of answers) assert.ok(!text.includes(mark), `${status} ${text}`)
  const listed = await runSvc(['secrets', 'list', 'site', '--json'], {
    SVC_DATA_DIR: service.dataDir,
  })
  assert.match(listed.out, /"TOKEN"/)
  assert.ok(!(listed.out + listed.err + service.log()).includes(mark))
  const forms = [
    mark,
    Buffer.from(mark).toString('base64').replace(/=+$/, ''),
    Buffer.from(mark).toString('hex'),
  ]
  for (const entry of await readdir(service.dataDir, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue
    const bytes = await readFile(join(entry.parentPath, entry.name))
    for (const form of forms) assert.ok(!bytes.includes(form), entry.name)
  }
})
