import assert from 'node:assert/strict'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, before, test } from 'node:test'
import { until } from '../support/condition.ts'
import { createPageClient, logIn } from '../support/page-client.ts'
import { createClient, type Service, startService } from '../support/service.ts'
import { openTables } from '../support/tables.ts'

let service: Service

before(async () => {
  service = await startService()
})

after(() => service[Symbol.asyncDispose]())

const hourMs = 3_600_000
const dayMs = 24 * hourMs

/** Changes the newest session, as time would. */
function age(changes: string, ...values: number[]): void {
  using db = new DatabaseSync(join(service.dataDir, 'svc.db'), { timeout: 5000 })
  db.prepare(`update sessions set ${changes} where id = (select max(id) from sessions)`).run(
    ...values,
  )
}

function newest() {
  using tables = openTables(service.dataDir)
  const rows = tables
    .rows('sessions')
    .sort((one, two) => (String(one.id) < String(two.id) ? 1 : -1))
  return rows[0] ?? {}
}

test('a session lasts 30 days, and no longer than its token', async () => {
  await logIn(service.url, service.adminToken)
  const { created_at: createdAt, expires_at: expiresAt, ...session } = newest()
  assert.equal(Number(expiresAt) - Number(createdAt), 30 * dayMs)
  assert.equal(Number(session.unlocked_until) - Number(createdAt), hourMs)
  assert.match(String(session.secret_hash), /^[0-9a-f]{64}$/)

  const { body } = await service.admin.post('/tokens', { name: 'short', expiresInSeconds: 600 })
  await logIn(service.url, body.token)
  assert.equal(newest().expires_at, body.expiresAt)
})

test('a session ends when it expires, and after seven days without a page', async () => {
  for (const column of ['expires_at', 'seen_at']) {
    const client = await logIn(service.url, service.adminToken)
    const limit = column === 'seen_at' ? Date.now() - 7 * dayMs : Date.now()
    age(`${column} = ?`, limit + 60_000)
    assert.equal((await client.get('/')).status, 200, column)
    age(`${column} = ?`, limit)
    assert.equal((await client.get('/')).status, 303, column)
  }
})

test('a page is noted at most every 30 seconds', async () => {
  const client = await logIn(service.url, service.adminToken)
  const { seen_at: first } = newest()
  await client.get('/')
  assert.equal(newest().seen_at, first)
  const before = Number(first) - 31_000
  age('seen_at = ?', before)
  await client.get('/')
  await until('it is noted', async () => Number(newest().seen_at) > before)
})

test('after an hour a change asks for the token, and goes on from there', async () => {
  const client = await logIn(service.url, service.adminToken)
  age('unlocked_until = ?', Date.now())
  const asked = await client.post('/-/new', { name: 'later' })
  assert.equal(asked.status, 200)
  assert.match(asked.text, /Confirm it is you/)
  assert.match(asked.text, /type="hidden" name="name" value="later"/)
  assert.equal((await service.admin.get('/repos/later')).status, 404)

  const { body } = await service.admin.post('/tokens', { name: 'other', permissions: ['admin'] })
  for (const token of ['svc_wrong', body.token, 'x'.repeat(43)]) {
    const { status, text } = await client.post('/-/new', { name: 'later', _token: token })
    assert.equal(status, 401, token)
    assert.match(text, /role="alert"/)
    assert.ok(!text.includes(token))
  }
  const { status } = await client.post('/-/new', { name: 'later', _token: service.adminToken })
  assert.equal(status, 303)
  const { body: created } = await service.admin.get('/audit?action=repository.created')
  assert.equal(created.length, 1)
  // A login link of the same token does the same.
  age('unlocked_until = ?', Date.now())
  const link = await service.admin.post('/login-codes')
  const again = await client.post('/-/new', { name: 'linked', _token: link.body.url })
  assert.equal(again.status, 303)
})

test('the page says once which sessions were ended', async () => {
  const client = await logIn(service.url, service.adminToken)
  const other = await logIn(service.url, service.adminToken)
  for (const [path, text] of [
    [`/-/sessions/${newest().id}/end`, 'The session is ended.'],
    ['/-/sessions/end-others', 'All other sessions are ended.'],
  ] as const) {
    const { status, location } = await client.post(path, {})
    assert.deepEqual([status, location], [303, '/-/sessions'])
    assert.ok((await client.get('/-/sessions')).text.includes(`>${text}</p>`), text)
    assert.ok(!(await client.get('/-/sessions')).text.includes('role="status"'))
  }
  assert.equal((await other.get('/')).status, 303)
  // An address cannot make it say something.
  assert.ok(!(await client.get('/-/sessions?ended=others')).text.includes('role="status"'))
})

test('a part of a user neither sees nor ends the sessions of the others', async () => {
  const user = { name: 'test', username: 'uma' }
  const whole = (await service.admin.post('/tokens', user)).body
  const delegate = createClient(service.url, whole.token)
  const parts = [
    (await delegate.post('/tokens/delegate', { name: 'none', permissions: [] })).body,
    (await service.admin.post('/tokens', { ...user, refs: ['refs/heads/agents/*'] })).body,
  ]
  const ofUser = await logIn(service.url, whole.token)
  const { id } = newest()
  for (const part of parts) {
    const session = await logIn(service.url, part.token)
    const own = newest().id
    const listed = (await session.get('/-/sessions')).text
    assert.match(listed, /Sessions <span class="count">1</)
    for (const path of [`/-/sessions/${id}/end`, '/-/sessions/end-others'])
      await session.post(path, {})
    assert.equal((await ofUser.get('/')).status, 200)
    // The user sees and ends those of the parts.
    assert.match((await ofUser.get('/-/sessions')).text, /Sessions <span class="count">2</)
    await ofUser.post(`/-/sessions/${own}/end`, {})
    assert.equal((await session.get('/')).status, 303)
  }
})

test('a login and its end are in the audit log, with the token and the address', async () => {
  const { body: token } = await service.admin.post('/tokens', { name: 'x', username: 'vera' })
  await logIn(service.url, token.token)
  const link = await createClient(service.url, token.token).post('/login-codes')
  const client = createPageClient(service.url)
  await client.post(new URL(link.body.url).pathname, {})
  await client.post('/-/sessions/end-others', {})
  await client.post('/-/logout', {})
  const { body } = await service.admin.get('/audit?username=vera')
  const entries = body.map(({ action, actor, via, address, data }: AuditEntry) => {
    assert.deepEqual([actor.id, via, address], [token.id, 'api', '127.0.0.1'])
    return [action, data.count]
  })
  assert.deepEqual(entries, [
    ['session.ended', 1],
    ['session.ended', 1],
    ['session.created', undefined],
    ['session.created', undefined],
  ])
})

type AuditEntry = {
  action: string
  actor: { id: string }
  via: string
  address: string | null
  data: { count?: number }
}

test('a session of one server is one of another on the same data', async () => {
  const client = await logIn(service.url, service.adminToken)
  const cookie = client.cookie()
  await service.end('SIGTERM')
  await using next = await startService({
    dataDir: service.dataDir,
    env: { SVC_ADMIN_TOKEN: service.adminToken },
  })
  const { status } = await fetch(next.url, { headers: { cookie }, redirect: 'manual' })
  assert.equal(status, 200)
})
