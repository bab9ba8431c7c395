// Tags: exhaustive
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { until } from '../support/condition.ts'
import { connectAgent } from '../support/mcp.ts'
import { createClient, type Service, startService, toAnswer } from '../support/service.ts'

let service: Service

before(async () => {
  service = await startService()
  await service.admin.post('/repos', { name: 'site' })
})
after(() => service[Symbol.asyncDispose]())

async function send(body: string | object, headers: Record<string, string> = {}) {
  const response = await fetch(`${service.url}/mcp`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${service.adminToken}`,
      'content-type': 'application/json',
      ...headers,
    },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })
  return toAnswer(response)
}

const message = (method: string, params: unknown = {}) => ({
  jsonrpc: '2.0',
  id: 1,
  method,
  params,
})
const call = (name: unknown, given?: unknown) =>
  message('tools/call', { name, ...(given !== undefined && { arguments: given }) })

test('requests without a valid token are refused before their body is read', async () => {
  for (const authorization of ['', 'Bearer svc_nope']) {
    const answer = await send('{', { authorization })
    assert.equal(answer.status, 401)
    assert.match(answer.headers.get('www-authenticate') ?? '', /^Bearer realm=/)
    assert.equal(answer.headers.get('content-type'), 'application/problem+json')
  }
})

test('there are no streams and no sessions', async () => {
  for (const method of ['GET', 'DELETE']) {
    const answer = await service.admin.call(method, '/mcp')
    assert.deepEqual([answer.status, answer.headers.get('allow')], [405, 'OPTIONS, POST'])
  }
  const answer = await send(message('ping'))
  assert.equal(answer.headers.get('mcp-session-id'), null)
  assert.match(answer.headers.get('content-type') ?? '', /^application\/json/)
})

test('only pages of the service itself may call it', async () => {
  for (const origin of ['http://elsewhere.example', 'null', service.url.replace('http', 'https')]) {
    const { status, body } = await send(message('ping'), { origin })
    assert.deepEqual([status, body.code], [403, 'origin_forbidden'])
  }
  assert.equal((await send(message('ping'), { origin: service.url })).status, 200)
})

test('behind a trusted proxy, the address is the one that the client called', async () => {
  await using proxied = await startService({ env: { SVC_TRUSTED_PROXIES: '127.0.0.1' } })
  await proxied.admin.post('/repos', { name: 'site' })
  const origin = proxied.url.replace('http', 'https')
  const forwarded = { 'x-forwarded-proto': 'https', 'x-forwarded-for': '203.0.113.9' }
  const sent = await fetch(`${proxied.url}/mcp`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${proxied.adminToken}`,
      'content-type': 'application/json',
      origin,
      ...forwarded,
    },
    body: JSON.stringify(call('get_repository', { repository: 'site' })),
  })
  const { body } = await toAnswer(sent)
  const repository = JSON.parse(body.result.content[0].text)
  assert.equal(repository.cloneUrls.http, `${origin}/repos/site.git`)
  const page = await (await fetch(`${proxied.url}/llms.txt`, { headers: forwarded })).text()
  assert.ok(page.includes(`${origin}/mcp`))
  const entry = proxied
    .log()
    .split('\n')
    .find((line) => line.includes('/repos/site"'))
  assert.equal(JSON.parse(entry ?? '{}').address, '203.0.113.9')
})

test('a client that disconnects ends the call of its tool', async () => {
  const owner = await service.client({ username: 'ada', permissions: ['repo:read'] })
  const aborted = new AbortController()
  const given = { after: 'latest', wait: 60, kind: 'secret.saved' }
  const waiting = fetch(`${service.url}/mcp`, {
    method: 'POST',
    headers: { authorization: `Bearer ${owner.token}`, 'content-type': 'application/json' },
    body: JSON.stringify(call('list_events', given)),
    signal: aborted.signal,
  })
  await until('the token is used', async () => {
    const { body } = await service.admin.get('/tokens')
    return body.find((one: { id: string }) => one.id === owner.id)?.lastUsedAt
  })
  aborted.abort()
  await assert.rejects(waiting, { name: 'AbortError' })
  await until('the call of the tool ends', () => {
    const entries = service
      .log()
      .split('\n')
      .filter((line) => line.includes(owner.id))
    return entries.some((line) => JSON.parse(line).path === '/events')
  })
})

test('an earlier protocol needs no handshake; an unknown one is refused', async () => {
  const known = await send(message('tools/list'), { 'mcp-protocol-version': '2025-06-18' })
  assert.ok(known.body.result.tools.length > 10)
  const unknown = await send(message('tools/list'), { 'mcp-protocol-version': '1999-01-01' })
  assert.equal(unknown.status, 400)
  assert.match(unknown.body.error.message, /protocol version/i)
  const notified = await send({ jsonrpc: '2.0', method: 'notifications/initialized' })
  assert.deepEqual([notified.status, notified.text], [202, ''])
  const client = createClient(service.url, service.adminToken)
  await using agent = await connectAgent('http', client)
  assert.equal(agent.client.getProtocolEra(), 'modern')
})

test('what is not one JSON-RPC message is refused with its reason', async () => {
  const deep = '['.repeat(200_000) + ']'.repeat(200_000)
  for (const [body, status, code] of [
    ['{"jsonrpc":', 400, 'malformed_request'],
    ['[]', 400, 'invalid_request'],
    [[message('ping'), message('ping')], 400, 'invalid_request'],
    [JSON.stringify(Array.from({ length: 5000 }, () => message('ping'))), 400, 'invalid_request'],
    [deep, 400, 'invalid_request'],
    [{ jsonrpc: '1.0', id: 1, method: 'ping' }, 400, 'invalid_request'],
    [{ jsonrpc: '2.0', id: null, method: 'ping' }, 400, 'invalid_request'],
    [{ jsonrpc: '2.0', id: 1, result: {} }, 400, 'invalid_request'],
    [{ ...message('ping'), params: [] }, 400, 'invalid_request'],
    [message('x'.repeat(1000)), 400, 'invalid_request'],
    [message('ping', { text: 'x'.repeat(1_100_000) }), 413, 'body_too_large'],
  ] as const) {
    const answer = await send(body)
    assert.deepEqual([answer.status, answer.body.code], [status, code], answer.text)
    assert.ok(answer.text.length < 5000)
  }
})

test('messages that the protocol does not have are JSON-RPC errors', async () => {
  for (const [body, code] of [
    [message('no/such'), -32601],
    [message('resources/list'), -32601],
    [message('subscriptions/listen', { notifications: {} }), -32601],
    [message('tools/call', {}), -32602],
    [call(1), -32602],
    [call('x'.repeat(10_000)), -32602],
    [call('__proto__'), -32602],
    [call('get_repository', 'site'), -32602],
  ] as const) {
    const answer = await send(body)
    assert.equal(answer.body.error?.code, code, answer.text)
    assert.ok(answer.text.length < 2000, answer.text)
  }
})

test('arguments that a tool does not take are named', async () => {
  const deep = `${'{"a":'.repeat(50_000)}1${'}'.repeat(50_000)}`
  const hostile: [string, unknown, RegExp][] = [
    ['get_repository', {}, /\/repository is required: name of the repository/],
    ['get_repository', { repository: 1 }, /\/repository must be the name/],
    ['get_repository', { repository: '' }, /\/repository must be the name/],
    ['get_repository', { repository: 'x'.repeat(1001) }, /\/repository must be the name/],
    ['get_repository', { repository: 'site', id: 'x' }, /\/id is not an argument/],
    ['get_repository', { repository: '../site' }, /repository_not_found/],
    ['get_repository', { repository: '\ud800' }, /repository_not_found/],
    ['get_repository', { repository: 'a\0b' }, /repository_not_found/],
    ['list_events', { follow: true }, /\/follow is not an argument/],
    ['list_events', { limit: 1001 }, /`limit` must be an integer from 1 to 1000/],
    ['list_events', { after: { a: 1 } }, /"pointer":"\/after","detail":"must be text/],
    ['list_events', { constructor: 1 }, /\/constructor is not an argument/],
    ['create_repository', { name: ['x'] }, /\/name/],
    ['check_workflows', { repository: 'site', contents: 'x' }, /\/contents/],
    ['check_workflows', { repository: 'site', contents: JSON.parse(deep) }, /\/contents/],
  ]
  for (const [name, given, expected] of hostile) {
    const { status, body, text } = await send(call(name, given))
    assert.equal(status, 200, text)
    assert.equal(body.result.isError, true, text)
    assert.match(body.result.content[0].text, expected)
    assert.ok(text.length < 5000)
  }
})

test('calls of tools are logged with their operations, without their queries', async () => {
  const repository = 'logged-name'
  await send(call('get_repository', { repository }))
  const lines = service
    .log()
    .split('\n')
    .filter((line) => line.includes(repository))
  const [entry] = lines.map((line) => JSON.parse(line))
  assert.deepEqual([entry.method, entry.path, entry.status], ['GET', `/repos/${repository}`, 404])
  assert.equal(entry.username, 'admin')
  const metrics = (await service.admin.get('/metrics')).text
  assert.match(metrics, /route="\/mcp"/)
})

test('/llms.txt describes the service at its address, and every operation', async () => {
  const answer = await toAnswer(await fetch(`${service.url}/llms.txt`))
  assert.equal(answer.status, 200)
  assert.match(answer.headers.get('content-type') ?? '', /^text\/markdown/)
  assert.match(answer.text, /^# svc\n\n> /)
  assert.ok(answer.text.length < 24_000)
  assert.ok(answer.text.includes(`git clone ${service.url}/repos/NAME.git`))
  const document = (await service.admin.get('/openapi.json')).body
  const docs = await (await fetch(`${service.url}/docs`)).text()
  for (const [path, item] of Object.entries<Record<string, { security: object[] }>>(
    document.paths,
  )) {
    for (const [method, { security }] of Object.entries(item)) {
      const isJson = security.length === 1
      const line = `- [${method.toUpperCase()} ${path}](`
      assert.equal(answer.text.includes(line), isJson, line)
    }
  }
  for (const [, fragment = ''] of answer.text.matchAll(/\/docs#([\w-]+)/g))
    assert.ok(docs.includes(`id="${fragment}"`), fragment)
})
