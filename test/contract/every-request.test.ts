// Tags: exhaustive
import assert from 'node:assert/strict'
import { METHODS } from 'node:http'
import { connect } from 'node:net'
import { after, test } from 'node:test'
import fc from 'fast-check'
import { startInProcess } from '../support/in-process.ts'
import { connectRaw, parseAnswer } from '../support/raw-http.ts'
import { toRounds } from '../support/rounds.ts'

const mib = 1024 ** 2
const service = await startInProcess({ SVC_FETCH_REQUEST_MAX: '1MiB', SVC_PUSH_MAX: '1MiB' })
await service.admin.post('/repos', { name: 'site' })
const { url, routes, adminToken } = service
const authorization = `Bearer ${adminToken}`

after(() => service[Symbol.asyncDispose]())

const values: Record<string, string> = { name: 'site', repository: 'site.git' }
const toPath = (template: string) =>
  template.replace(/:(\w+)\*?/g, (_, name: string) => values[name] ?? 'x')
const paths = [...new Set(routes.map(({ path }) => toPath(path)))]

// https://www.iana.org/assignments/http-methods, with PRI of HTTP/2, which is no request.
const registered = `ACL BASELINE-CONTROL BIND CHECKIN CHECKOUT CONNECT COPY DELETE GET HEAD LABEL LINK LOCK MERGE
  MKACTIVITY MKCALENDAR MKCOL MKREDIRECTREF MKWORKSPACE MOVE OPTIONS ORDERPATCH PATCH POST PROPFIND PROPPATCH PUT
  QUERY REBIND REPORT SEARCH TRACE UNBIND UNCHECKIN UNLINK UNLOCK UPDATE UPDATEREDIRECTREF VERSION-CONTROL`
const methods = [...new Set([...registered.split(/\s+/), ...METHODS])]
const token = fc.string({
  unit: fc.constantFrom(..."!#$%&'*+-.^_`|~09azAZ"),
  minLength: 1,
  maxLength: 30,
})

/** Sends a request without a body, on a connection of its own. */
async function ask(method: string, path: string) {
  using connection = await connectRaw(url)
  connection.request(`${method} ${path}`, { authorization, connection: 'close' })
  const received = await connection.end()
  return parseAnswer(method === 'HEAD' ? received.replace(/^content-length.*\r\n/im, '') : received)
}

async function allowOf(path: string): Promise<string[]> {
  const { headers, status } = await service.admin.call('OPTIONS', path)
  assert.equal(status, 204, path)
  return (headers.get('allow') ?? '').split(', ')
}

async function assertRefused(method: string, path: string, allow: string[]): Promise<void> {
  const answer = await ask(method, path)
  assert.equal(answer?.status, 405, `${method} ${path}: ${answer?.head}`)
  assert.equal(/^allow: (.*)\r$/im.exec(answer.head)?.[1], allow.join(', '), `${method} ${path}`)
  if (method !== 'HEAD') assert.equal(JSON.parse(answer.body).code, 'method_not_allowed')
}

test('an address supports the methods that OpenAPI describes, and lists them', async () => {
  const { body } = await service.admin.get('/openapi.json')
  for (const [template, item] of Object.entries<Record<string, object>>(body.paths)) {
    const described = Object.keys(item).map((method) => method.toUpperCase())
    const isOfGit = routes.some(
      ({ kind, path }) => kind === 'stream' && toPath(path) === toPath(toColons(template)),
    )
    const head = described.includes('GET') && !isOfGit ? ['HEAD'] : []
    const expected = [...described, ...head, 'OPTIONS'].sort()
    assert.deepEqual(await allowOf(toPath(toColons(template))), expected, template)
  }
})

const toColons = (template: string) => template.replace(/\{(\w+)\}/g, ':$1')

test('every other registered method gets 405 with Allow, at every address', async () => {
  for (const path of paths) {
    const allow = await allowOf(path)
    const others = methods.filter((method) => !allow.includes(method))
    await Promise.all(others.map((method) => assertRefused(method, path, allow)))
  }
  for (const method of methods) assert.equal((await ask(method, '/nowhere'))?.status, 404, method)
})

test('any other token as a method does, too', async () => {
  const path = fc.constantFrom(...paths)
  await fc.assert(
    fc.asyncProperty(token, path, async (method, address) => {
      const allow = await allowOf(address)
      if (!allow.includes(method)) await assertRefused(method, address, allow)
    }),
    { numRuns: toRounds(50) },
  )
})

test('an invalid request line gets 400', async () => {
  for (const line of ['QUERY', 'GET', 'FOO /repos', 'FOO /repos HTTP/2.0', '{"a":1} / HTTP/1.1']) {
    using connection = await connectRaw(url)
    connection.socket.write(`${line}\r\n\r\n`)
    assert.equal((await connection.answer()).status, 400, line)
  }
})

/** The beginning of a response. Of one whose request is cut off, the rest can be lost on its way. */
function headOf(received: string): { status: number; head: string } | undefined {
  const head = /^HTTP\/1.1 .*?\r\n(?=\r\n)/s.exec(received)?.[0]
  return head === undefined ? undefined : { status: Number(head.split(' ')[1]), head }
}

/** Sends a body for as long as the server takes it; the head of the response and how much was sent. */
async function sendAll(method: string, path: string, body: Body) {
  const { headers, isChunked, piece } = body
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  let received = ''
  const closed = new Promise((resolve) => socket.on('error', () => {}).on('close', resolve))
  socket.setMaxListeners(0).on('data', (bytes) => {
    received += bytes.toString('latin1')
  })
  const framing = isChunked ? 'transfer-encoding: chunked' : `content-length: ${bodyBytes}`
  socket.write(
    `${method} ${path} HTTP/1.1\r\nhost: x\r\nauthorization: ${authorization}\r\n${headers}${framing}\r\n\r\n`,
  )
  let sent = 0
  while (sent < bodyBytes && !socket.closed) {
    if (isChunked) socket.write(`${piece.length.toString(16)}\r\n`)
    const isTaken = socket.write(piece)
    if (isChunked) socket.write('\r\n')
    sent += piece.length
    if (!isTaken)
      await Promise.race([new Promise((resolve) => socket.once('drain', resolve)), closed])
  }
  if (isChunked && !socket.closed) socket.write('0\r\n\r\n')
  if (!headOf(received)) await closed
  socket.destroy()
  return { answer: headOf(received), sent }
}

type Body = { headers: string; isChunked: boolean; piece: Buffer }

const bodyBytes = 96 * mib

for (const isChunked of [false, true]) {
  const framing = isChunked ? 'in chunks' : 'of a declared length'
  test(`a body ${framing} beyond every limit gets a response at once, and is not read to its end`, async () => {
    for (const route of routes) {
      const type =
        (route.kind === 'public'
          ? route.form && 'application/x-www-form-urlencoded'
          : route.consumes) ?? 'application/json'
      for (const fill of ['[', '00000009done\n']) {
        const body = {
          headers: `content-type: ${type}\r\n`,
          isChunked,
          piece: Buffer.alloc(mib, fill),
        }
        const path = toPath(route.path)
        const { answer, sent } = await sendAll(route.method, path, body)
        const name = `${route.method} ${path}: ${answer?.head}`
        assert.ok(answer && (answer.status < 500 || answer.status === 501), name)
        assert.ok(sent < bodyBytes, `${name}: ${sent} bytes of ${bodyBytes} were read`)
        if (route.kind === 'public' || isChunked) continue
        // The address comes before any look at a body: what is not there, not for this token, or has no service.
        assert.ok([413, 404, 403, 400].includes(answer.status), name)
        assert.match(answer.head, /^connection: close\r$/im)
      }
    }
  })
}

test('a body that is slightly too long is read, so that its sender gets the response', async () => {
  const agentless = { authorization, 'content-type': 'application/json' }
  for (let count = 0; count < 20; count++) {
    const body = Buffer.alloc(2 * mib, ' ')
    const answer = await fetch(`${url}/repos`, { method: 'POST', headers: agentless, body })
    assert.equal(answer.status, 413)
  }
})

test('a request without exactly one Host header gets a problem', async () => {
  const lines = (count: number) => 'Host: localhost\r\n'.repeat(count)
  for (const path of [
    '/health',
    '/repos',
    '/repos/site.git/info/refs?service=git-upload-pack',
    '/x',
  ]) {
    for (const [count, version, isRefused] of [
      [0, '1.1', true],
      [2, '1.1', true],
      [2, '1.0', true],
      [0, '1.0', false],
      [1, '1.1', false],
    ] as const) {
      using connection = await connectRaw(url)
      const rest = `Authorization: ${authorization}\r\nConnection: close\r\n\r\n`
      connection.socket.write(`GET ${path} HTTP/${version}\r\n${lines(count)}${rest}`)
      const answer = parseAnswer((await connection.end()).replaceAll('HTTP/1.0', 'HTTP/1.1'))
      const where = `${path}, ${count} of HTTP/${version}: ${answer?.head}`
      assert.equal(answer?.status === 400, isRefused, where)
      if (isRefused) assert.match(JSON.parse(answer?.body ?? '').detail, /one Host header/)
    }
  }
})

test('an unknown expectation is ignored', async () => {
  for (const path of ['/repos', '/repos/site.git/info/refs?service=git-upload-pack']) {
    using connection = await connectRaw(url)
    connection.request(`GET ${path}`, { authorization, expect: 'a-miracle', connection: 'close' })
    assert.equal(parseAnswer(await connection.end())?.status, 200)
  }
})

test('a client with a body that is too large does not get 100 Continue', async () => {
  const body = { 'content-type': 'application/json', 'content-length': 100 * mib }
  const push = { ...body, 'content-type': 'application/x-git-receive-pack-request' }
  for (const [path, headers] of [
    ['/repos', body],
    ['/repos/site.git/git-receive-pack', push],
  ] as const) {
    using connection = await connectRaw(url)
    connection.request(`POST ${path}`, { authorization, expect: '100-continue', ...headers })
    const received = await connection.end()
    assert.match(received, /^HTTP\/1\.1 413 /, path)
  }
})
