import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { json } from 'node:stream/consumers'
import { test } from 'node:test'
import { newTokenString } from '#base/token-string.ts'
import { createProject } from '../support/git.ts'
import { type Service, startService } from '../support/service.ts'

type Headers = Record<string, string | string[]>

/** Requests as a proxy does, with a Host header that fetch would not send. */
async function ask(service: Service, path: string, headers: Headers, token = service.adminToken) {
  const sent = request(service.url + path, {
    headers: { authorization: `Bearer ${token}`, ...headers },
  }).end()
  // The event has one argument.
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  // biome-ignore lint/suspicious/noExplicitAny: the assertions say what they expect
  return { status: response.statusCode, body: (await json(response)) as any }
}

const trusting = { SVC_TRUSTED_PROXIES: '127.0.0.1' }
const https = { host: 'git.example.com', 'x-forwarded-proto': 'https' }

async function addressesFor(service: Service, headers: Headers): Promise<string[]> {
  const { body: repository } = await ask(service, '/repos/site', headers)
  const { body: openApi } = await ask(service, '/openapi.json', headers)
  assert.match(repository.cloneUrls.http, /\/repos\/site\.git$/)
  return [repository.cloneUrls.http.slice(0, -'/repos/site.git'.length), openApi.servers[0].url]
}

test('links have the scheme and host of a trusted proxy, request by request', async () => {
  await using service = await startService({ env: trusting })
  await service.admin.post('/repos', { name: 'site' })
  const twice = (address: string) => [address, address]
  assert.deepEqual(await addressesFor(service, https), twice('https://git.example.com'))
  assert.deepEqual(await addressesFor(service, {}), twice(service.url))
  const other = { ...https, host: 'intern:8443', 'x-forwarded-for': '203.0.113.9' }
  assert.deepEqual(await addressesFor(service, other), twice('https://intern:8443'))
  for (const ignored of [
    { ...https, 'x-forwarded-proto': 'gopher' },
    { ...https, host: 'a/b' },
    { 'x-forwarded-host': 'evil.example', forwarded: 'proto=https;host=evil.example' },
    { ...https, 'x-forwarded-proto': ['https', 'gopher'] },
  ])
    assert.deepEqual(await addressesFor(service, ignored), twice(service.url))
  const repeated = { ...https, 'x-forwarded-proto': ['http', 'https'] }
  assert.deepEqual(await addressesFor(service, repeated), twice('https://git.example.com'))
})

test('every response that describes a repository has the links of its request', async () => {
  await using service = await startService({ env: trusting })
  await using project = await createProject()
  const headers = { 'x-forwarded-proto': 'https', authorization: `Bearer ${service.adminToken}` }
  const { host } = new URL(service.url)
  const linkOf = async (method: string, path: string, body: object) => {
    const response = await fetch(service.url + path, {
      method,
      headers: { ...headers, 'content-type': 'application/json', prefer: 'respond-async' },
      body: JSON.stringify(body),
    })
    // biome-ignore lint/suspicious/noExplicitAny: the assertion says what it expects
    return ((await response.json()) as any).cloneUrls.http
  }
  const urlOf = (name: string) => `https://${host}/repos/${name}.git`
  assert.equal(await linkOf('POST', '/repos', { name: 'site' }), urlOf('site'))
  assert.equal(await linkOf('PATCH', '/repos/site', { name: 'page' }), urlOf('page'))
  assert.equal(await linkOf('PATCH', '/repos/page', { defaultBranch: 'x' }), urlOf('page'))
  const { id } = (await service.admin.get('/repos/page')).body
  await service.admin.delete('/repos/page')
  assert.equal(await linkOf('POST', `/deleted-repos/${id}/restore`, {}), urlOf('page'))
  const source = { source: project.path, name: 'copy' }
  assert.equal(await linkOf('POST', '/repos/import', source), urlOf('copy'))
})

test('links ignore what clients and untrusted proxies say', async () => {
  for (const env of [{}, { SVC_TRUSTED_PROXIES: '10.0.0.0/8,::1' }]) {
    await using service = await startService({ env })
    await service.admin.post('/repos', { name: 'site' })
    const spoofed = { ...https, 'x-forwarded-for': '10.0.0.1' }
    assert.deepEqual(await addressesFor(service, spoofed), [service.url, service.url])
  }
})

test('SVC_BASE_URL is the address in all links, also behind a trusted proxy', async () => {
  const address = 'https://git.example.com/svc'
  await using service = await startService({ env: { ...trusting, SVC_BASE_URL: address } })
  await service.admin.post('/repos', { name: 'site' })
  const other = { ...https, host: 'evil.example' }
  assert.deepEqual(await addressesFor(service, other), [address, address])
})

test('a client cannot spread its invalid tokens over forged addresses', async () => {
  const limit = { SVC_BAD_TOKENS_PER_MINUTE: '2' }
  const forgeries = (client: string) => [
    { 'x-forwarded-for': `192.0.2.1, ${client}` },
    { 'x-forwarded-for': [`192.0.2.2`, client] },
    { 'x-forwarded-for': `127.0.0.1, 192.0.2.3, unknown, ${client}, 127.0.0.1` },
    { 'x-forwarded-for': client, 'x-real-ip': '192.0.2.4', forwarded: 'for=192.0.2.4' },
  ]
  const statuses = async (service: Service, all: Headers[]) => {
    const found = []
    for (const headers of all) {
      found.push((await ask(service, '/repos', headers, newTokenString())).status)
    }
    return found
  }
  await using behind = await startService({ env: { ...trusting, ...limit } })
  assert.deepEqual(await statuses(behind, forgeries('203.0.113.9')), [401, 401, 429, 429])
  // The addresses of one IPv6 customer are counted as one, in any spelling.
  const customer = ['2a00:1:2:3::1', '2A00:0001:2:3:4:5:6:7', '2a00:1:2:3::9', '2a00:1:2:4::1']
  const requests = customer.map((client) => ({ 'x-forwarded-for': client }))
  assert.deepEqual(await statuses(behind, requests), [401, 401, 429, 401])
  const good = { 'x-forwarded-for': '203.0.113.9' }
  assert.equal((await ask(behind, '/repos', good)).status, 200)
  await using direct = await startService({ env: limit })
  assert.deepEqual(await statuses(direct, requests), [401, 401, 429, 429])
})
