import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { createPageClient, logIn, type PageClient } from '../support/page-client.ts'
import { connectRaw } from '../support/raw-http.ts'
import { type Service, startService } from '../support/service.ts'
import { pushFiles } from '../support/workflow-site.ts'

let service: Service
let client: PageClient

before(async () => {
  service = await startService({ env: { SVC_JSON_BODY_SECONDS: '1' } })
  await pushFiles(service.admin, 'demo', { 'a.txt': 'text\n' })
  client = await logIn(service.url, service.adminToken)
})

after(() => service[Symbol.asyncDispose]())

/** Sends a request as it is; the head of the response. */
async function send(
  line: string,
  headers: Record<string, string> = {},
  body = '',
): Promise<string> {
  using connection = await connectRaw(service.url)
  connection.request(line, { cookie: client.cookie(), connection: 'close', ...headers })
  connection.socket.write(body)
  return (await connection.end()).split('\r\n\r\n', 1)[0] ?? ''
}

function statusIn(head: string): number {
  return Number(/^HTTP\/1\.1 (\d+)/.exec(head)?.[1])
}

const form = {
  'content-type': 'application/x-www-form-urlencoded',
  'sec-fetch-site': 'same-origin',
}

test('odd addresses are answered with a problem, and never by a file or another host', async () => {
  const paths = [
    '/r/..%2f..%2fetc%2fpasswd',
    '/r/../../etc/passwd',
    '/r/demo/src/main:../../../etc/passwd',
    '/r/demo/src/main:%2e%2e%2f%2e%2e%2fetc%2fpasswd',
    '/r/demo/src/main:a.txt%00.html',
    '/r/demo/src/main:%ff%fe',
    '/r/demo/src/main:%',
    '/r/demo/src/main:a.txt%0d%0aSet-Cookie:%20x=y',
    '/r/demo/src/main%0aHEAD',
    '/r/demo/src/--output=x',
    '/r/demo/src/HEAD~1',
    '/r/demo/src/@%7B-1%7D',
    '/r/demo/src/:/text',
    `/r/demo/src/main:${'a/'.repeat(3000)}`,
    `/r/${'a'.repeat(5000)}`,
    '/r/demo//src/main',
    '/r//demo',
    '/r/%00',
    '/r/%ff',
    '/r/demo%2Fsrc',
    '/r/__proto__',
    '/r/demo/__proto__',
    '/r/demo/src/__proto__:constructor',
    '/-/__proto__',
    '/-/assets/../../etc/passwd',
    '/-/assets/0123456789abcdef/__proto__',
    '/-/assets/%2e%2e/app.css',
    '/r/demo/raw/main:..%2f..%2fsvc.db',
    '//evil.example/r/demo/',
  ]
  for (const path of paths) {
    const head = await send(`GET ${path}`)
    assert.ok([303, 400, 404, 422].includes(statusIn(head)), `${path}: ${head}`)
    assert.doesNotMatch(head, /^set-cookie|^location: (?!\/(?![/\\]))/im, path)
    assert.match(head, /^x-content-type-options: nosniff$/im, path)
  }
})

test('a slash at the end leads to the page without it, whether or not there is such a repository', async () => {
  for (const [from = '', to = ''] of [
    ['/r/demo/', '/r/demo'],
    ['/r/unknown/', '/r/unknown'],
    // As that of a repository in a namespace.
    ['/r/demo/src/', '/r/demo/src'],
    ['/r/demo/runs/?status=queued', '/r/demo/runs?status=queued'],
    ['/-/login/?next=%2Fr%2Fdemo', '/-/login?next=%2Fr%2Fdemo'],
  ]) {
    const head = await send(`GET ${from}`)
    assert.match(head, new RegExp(`^location: ${to.replace(/[?]/g, '\\$&')}\r?$`, 'im'), from)
    assert.equal(statusIn(head), 303)
  }
  for (const path of ['/r/demo//', '/r//', '/-/nothing/'])
    assert.equal(statusIn(await send(`GET ${path}`)), 404, path)
})

test('methods that a page does not take are named', async () => {
  for (const [line, status] of [
    ['HEAD /r/demo', 200],
    ['HEAD /-/login', 303],
    ['PUT /r/demo', 405],
    ['DELETE /r/demo', 405],
    ['OPTIONS /r/demo', 405],
    ['POST /r/demo', 405],
    ['PROPFIND /', 405],
    ['TRACE /', 405],
  ] as const) {
    const head = await send(line, form)
    assert.equal(statusIn(head), status, `${line}: ${head}`)
    if (status === 405) assert.match(head, /^allow: GET, HEAD$/im, line)
  }
})

test('a session is that of the first of a few cookies of its name that has one', async () => {
  const cookie = client.cookie()
  const [name, secret = ''] = cookie.split('=')
  const unknown = 'a'.repeat(secret.length)
  const statuses: [string, number][] = [
    [cookie, 200],
    [`a=b; ${cookie}; c="d"`, 200],
    [`${cookie}; ${cookie}`, 200],
    [`${cookie}; ${name}=other`, 200],
    [`${name}=x; ${name}=x; ${name}=${unknown}; ${name}=; ${cookie}`, 200],
    [`${Array.from('abcd', (one) => `${name}=${one}`).join('; ')}; ${cookie}`, 303],
    [`${name}=`, 303],
    [`${name}="${secret}"`, 303],
    [`${name}=${secret}x`, 303],
    [`${name}=${secret.slice(1)}`, 303],
    [`${name?.toUpperCase()}=${secret}`, 303],
    [`__Host-svc=${secret}`, 303],
    [`${name}=${'x'.repeat(8000)}`, 303],
    [`${name}=' or 1=1 --`, 303],
    [`x=${'y'.repeat(60_000)}`, 431],
  ]
  for (const [given, status] of statuses) {
    const head = await send('GET /', { cookie: given })
    assert.equal(statusIn(head), status, given.slice(0, 100))
  }
})

test('forms of other types, sizes and origins change nothing', async () => {
  const wrong: [Record<string, string>, string, number][] = [
    [{ 'content-type': 'application/json' }, '{"name":"forged"}', 415],
    [{ 'content-type': 'text/plain' }, 'name=forged', 415],
    [{ 'content-type': 'multipart/form-data; boundary=x' }, '--x--', 415],
    [{ 'content-type': 'application/x-www-form-urlencodedx' }, 'name=forged', 415],
    [{ 'sec-fetch-site': 'none' }, 'name=forged', 403],
    [{ 'sec-fetch-site': 'same-site' }, 'name=forged', 403],
    [{ 'sec-fetch-site': 'cross-site', origin: service.url }, 'name=forged', 403],
    [{}, `name=forged&x=${'x'.repeat(70_000)}`, 413],
  ]
  for (const [headers, body, status] of wrong) {
    const length = { 'content-length': String(Buffer.byteLength(body)) }
    const head = await send('POST /-/new', { ...form, ...headers, ...length }, body)
    assert.equal(statusIn(head), status, JSON.stringify(headers))
  }
  assert.equal((await service.admin.get('/repos/forged')).status, 404)
})

test('without Sec-Fetch-Site the origin has to be that of the service', async () => {
  const { origin, host } = new URL(service.url)
  const post = async (name: string, headers: Record<string, string>) => {
    const body = `name=${name}`
    const head = await send(
      'POST /-/new',
      { 'content-type': form['content-type'], 'content-length': `${body.length}`, ...headers },
      body,
    )
    return statusIn(head)
  }
  for (const wrong of [
    'null',
    '',
    'http://evil.example',
    `https://${host}`,
    `${origin}.evil.example`,
  ]) {
    assert.equal(await post('forged', { origin: wrong }), 403, wrong)
  }
  assert.equal(await post('forged', {}), 403)
  assert.equal(await post('forged', { referer: `${origin}/` }), 403)
  assert.equal(await post('own', { origin }), 303)
})

test('a form that does not arrive ends, and others are served meanwhile', async () => {
  using connection = await connectRaw(service.url)
  const headers = { ...form, cookie: client.cookie(), 'content-length': 100 }
  connection.request('POST /-/new', headers)
  connection.socket.write('name=')
  assert.equal((await client.get('/')).status, 200)
  assert.equal((await connection.answer()).status, 408)
})

test('a form that is declared as too large is refused before its body', async () => {
  for (const path of ['/-/new', '/-/login', '/r/demo/settings/name']) {
    const head = await send(`POST ${path}`, { ...form, 'content-length': '10000000' })
    assert.equal(statusIn(head), 413, path)
    assert.match(head, /^connection: close$/im, path)
  }
})

test('of fields that are there twice, or have the names of prototypes, none does harm', async () => {
  const bodies = [
    'name=twice&name=other',
    '__proto__=x&constructor=x&name=proto&toString=y',
    'name=&name=x',
    '%00=%00&name=%00',
    '=&&=&name',
    'name=%ff%fe',
    `name=${'%'.repeat(50)}`,
  ]
  for (const body of bodies) {
    const length = { 'content-length': String(body.length) }
    const status = statusIn(await send('POST /-/new', { ...form, ...length }, body))
    assert.ok(status < 500, `${body}: ${status}`)
  }
  assert.equal((await service.admin.get('/health')).status, 200)
})

test('what a client says about hosts is in no page', async () => {
  const headers = {
    host: 'evil.example',
    'x-forwarded-host': 'evil.example',
    'x-forwarded-proto': 'https',
    forwarded: 'host=evil.example',
    'x-original-url': '/-/tokens',
  }
  using connection = await connectRaw(service.url)
  connection.request('GET /r/demo', { ...headers, cookie: client.cookie(), connection: 'close' })
  const text = await connection.end()
  assert.doesNotMatch(text, /evil\.example/)
  const head = await send('GET /r/other', { ...headers, cookie: '' })
  assert.match(head, /^location: \/-\/login\?next=%2Fr%2Fother$/im)
})

test('the page of another user is not confirmed as unchanged', async () => {
  const { headers, text } = await client.get('/')
  const known = { 'if-none-match': headers.get('etag') ?? '' }
  assert.equal((await client.request('/', { headers: known })).status, 304)
  assert.match(headers.get('cache-control') ?? '', /^private, no-cache$/)
  assert.match(headers.get('vary') ?? '', /cookie/)
  const { token } = await service.client({ username: 'grace' })
  const other = await logIn(service.url, token)
  const theirs = await other.request('/', { headers: known })
  assert.equal(theirs.status, 200)
  assert.notEqual(theirs.text, text)
  const out = createPageClient(service.url)
  assert.equal((await out.request('/', { headers: known })).status, 303)
})

test('the routes of the API and of Git set and read no cookies', async () => {
  for (const path of [
    '/repos',
    '/docs',
    '/health',
    '/repos/demo.git/info/refs?service=git-upload-pack',
  ]) {
    const { headers, status } = await client.get(path)
    assert.equal(headers.get('set-cookie'), null, path)
    if (/repos/.test(path)) assert.equal(status, 401, path)
  }
})
