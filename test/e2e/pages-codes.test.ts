import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { createClientHome } from '../support/client-home.ts'
import { createPageClient, logIn, type PageClient } from '../support/page-client.ts'
import { without } from '../support/programs.ts'
import { type Client, createClient, type Service, startServiceWithSsh } from '../support/service.ts'
import { newKeyLine } from '../support/ssh-keys.ts'
import { createSshUser } from '../support/ssh-user.ts'

let service: Service
let ada: Client

before(async () => {
  service = await startServiceWithSsh({ env: { SVC_BAD_TOKENS_PER_MINUTE: '1000' } })
  ada = await service.client({ username: 'ada' })
  await ada.post('/repos', { name: 'site' })
})

after(() => service[Symbol.asyncDispose]())

/** The path of a new login link of a client. */
async function newLink(client: Client): Promise<string> {
  const { status, body } = await client.post('/login-codes')
  assert.equal(status, 201)
  return pathOf(body.url)
}

function pathOf(url: string): string {
  const { pathname, origin } = new URL(url.trim())
  assert.equal(origin, service.url)
  return pathname
}

/** The same with a browser that has no session. */
async function enter(path: string): Promise<PageClient> {
  const client = createPageClient(service.url)
  const { status, location } = await client.post(path, {})
  assert.deepEqual([status, location], [303, '/'])
  return client
}

test('a login link asks first, and logs in once', async () => {
  const path = await newLink(ada)
  const client = createPageClient(service.url)
  for (const _ of [1, 2]) {
    const { status, text, headers } = await client.get(path)
    assert.equal(status, 200)
    assert.match(text, /<h1>Log in as ada\?<\/h1>/)
    assert.equal(headers.get('set-cookie'), null)
  }
  assert.equal((await client.get('/-/new')).status, 303)
  assert.equal((await client.request(path, { method: 'HEAD' })).status, 200)
  await client.post(path, {})
  assert.equal((await client.get('/-/new')).status, 200)

  for (const method of ['get', 'post'] as const) {
    const other = createPageClient(service.url)
    const { status, text, headers } = await other[method](path, {})
    assert.equal(status, 401)
    assert.match(text, /This login link is not valid/)
    assert.equal(headers.get('set-cookie'), null)
  }
})

test('of two browsers with the same link one logs in', async () => {
  const path = await newLink(ada)
  const answers = await Promise.all(
    Array.from({ length: 5 }, () => createPageClient(service.url).post(path, {})),
  )
  const statuses = answers.map(({ status }) => status).sort()
  assert.deepEqual(statuses, [303, 401, 401, 401, 401])
})

test('a link of another site is not followed', async () => {
  const path = await newLink(ada)
  const client = createPageClient(service.url)
  const { status } = await client.post(path, {}, { 'sec-fetch-site': 'cross-site' })
  assert.equal(status, 403)
  assert.equal((await client.post(path, {})).status, 303)
})

test('a session of a link has the rights of the token, and ends with it', async () => {
  const { body } = await service.admin.post('/tokens', {
    name: 'reader',
    username: 'ada',
    permissions: ['repo:read'],
    repositories: ['site'],
  })
  const client = await enter(await newLink(createClient(service.url, body.token)))
  assert.equal((await client.get('/')).status, 200)
  assert.equal((await client.post('/-/new', { name: 'more' })).status, 403)
  const unused = await newLink(createClient(service.url, body.token))
  await service.admin.delete(`/tokens/${body.id}`)
  assert.equal((await client.get('/')).status, 303)
  assert.equal((await createPageClient(service.url).post(unused, {})).status, 401)
})

test('a login ends the session that the browser had', async () => {
  const client = await logIn(service.url, ada.token)
  const cookie = client.cookie()
  await client.post(await newLink(service.admin), {})
  assert.match((await client.get('/-/new')).text, /Menu of admin/)
  const former = createPageClient(service.url)
  assert.equal((await former.request('/-/new', { headers: { cookie } })).status, 303)
})

test('codes are in no log', async () => {
  const path = await newLink(ada)
  await enter(path)
  const code = path.split('/').at(-1) ?? ''
  assert.ok(service.log().includes('/-/login/[hidden]'))
  assert.ok(!service.log().includes(code))
})

test('wrong codes count as invalid tokens', async () => {
  await using strict = await startServiceWithSsh({ env: { SVC_BAD_TOKENS_PER_MINUTE: '4' } })
  const client = createPageClient(strict.url)
  const paths = ['a', 'b'.repeat(43), '%00', `${'c'.repeat(42)}%2F`]
  for (const path of paths) assert.equal((await client.get(`/-/login/${path}`)).status, 401, path)
  const refused = await client.get(`/-/login/${'d'.repeat(43)}`)
  assert.deepEqual([refused.status, refused.headers.has('retry-after')], [429, true])
  assert.equal((await client.post('/-/login', { token: 'svc_wrong' })).status, 429)
  // Valid ones still work.
  const { body } = await strict.admin.post('/login-codes')
  assert.equal((await client.post(new URL(body.url).pathname, {})).status, 303)
})

test('a service without pages makes no links', async () => {
  await using bare = await startServiceWithSsh({ env: { SVC_PAGES: 'off' } })
  const { status, body } = await bare.admin.post('/login-codes')
  assert.deepEqual([status, body.code], [404, 'route_not_found'])
  assert.equal((await fetch(`${bare.url}/-/login`)).status, 404)
})

test('svc login --web prints a link, for programs and for people', async () => {
  await using home = await createClientHome()
  await home.svc(['login', service.url, '--name', 'main'], { input: ada.token })
  for (const args of [[], ['main'], ['--server', 'main']]) {
    const { code, out, err } = await home.run(['login', '--web', ...args])
    assert.equal(code, 0, err)
    assert.match(err, /within a minute/)
    await enter(pathOf(out))
  }
  const { url, expiresAt } = JSON.parse(await home.svc(['login', '--web', '--json']))
  assert.ok(expiresAt > Date.now())
  await enter(pathOf(url))
  const { code, err } = await home.run(['login', '--web', 'elsewhere'])
  assert.equal(code, 2)
  assert.match(err, /not logged in to a server "elsewhere"/)
})

describe('a login over SSH', { skip: without('openssh') }, () => {
  test('has the rights of the key, and ends with it', async () => {
    await using user = await createSshUser(service, ada)
    const { exitCode, stdout } = await user.ssh('login')
    assert.equal(exitCode, 0)
    assert.match(stdout, /^http\S+\n$/)
    const client = await enter(pathOf(stdout))
    assert.match((await client.get('/')).text, /Menu of ada/)
    assert.equal((await client.get('/-/new')).status, 200)
    const made = await client.post('/-/new', { name: 'by-key' })
    assert.equal(made.location, '/r/by-key')
    const key = { name: 'more', publicKey: newKeyLine() }
    assert.notEqual((await client.post('/-/keys', key)).status, 303)
    assert.equal((await ada.get('/keys')).body.length, 1)
    await ada.delete(`/keys/${user.keyId}`)
    assert.equal((await client.get('/')).status, 303)
  })

  test('prints JSON, and nothing for the anonymous', async () => {
    await using open = await startServiceWithSsh({ env: { SVC_SSH_ANONYMOUS_READ: 'true' } })
    await using user = await createSshUser(open, open.admin)
    const { url } = JSON.parse((await user.ssh('login --json')).stdout)
    assert.equal((await createPageClient(open.url).post(new URL(url).pathname, {})).status, 303)
    await using anonymous = await createSshUser(open, undefined, { user: 'anonymous' })
    const { exitCode, stdout, stderr } = await anonymous.ssh('login')
    assert.deepEqual([exitCode, stdout], [1, ''])
    assert.match(stderr, /needs a key/)
  })
})
