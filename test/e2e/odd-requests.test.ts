import assert from 'node:assert/strict'
import { STATUS_CODES } from 'node:http'
import { after, before, test } from 'node:test'
import { connectRaw, parseAnswer } from '../support/raw-http.ts'
import { type Service, startService } from '../support/service.ts'

let service: Service

before(async () => {
  service = await startService()
  await service.admin.post('/repos', { name: 'site' })
})

after(() => service[Symbol.asyncDispose]())

/** The response to a request that is sent as it is. */
async function ask(request: string) {
  using connection = await connectRaw(service.url)
  connection.socket.write(request)
  return parseAnswer(await connection.end())
}

const head = 'Host: localhost\r\nConnection: close\r\n'
const last = `${head}\r\n`

const requests: [string, number][] = [
  [`GET /health HTTP/1.1\r\n${last}`, 200],
  [`GET /nowhere HTTP/1.1\r\n${last}`, 404],
  [`GET /%E0%A4%A HTTP/1.1\r\n${last}`, 400],
  [`GET /repos/%E0%A4%A HTTP/1.1\r\n${last}`, 400],
  [`GET /r/%E0%A4%A HTTP/1.1\r\n${last}`, 404],
  ['GET / HTTP/1.1\r\nConnection: close\r\n\r\n', 400],
  ['GET /repos HTTP/1.1\r\nConnection: close\r\n\r\n', 400],
  [`GET / HTTP/9\r\n${last}`, 400],
  [`GET /a b HTTP/1.1\r\n${last}`, 400],
  [`GET /r/a b HTTP/1.1\r\n${last}`, 400],
  [`POST /-/login HTTP/1.1\r\n${head}Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n`, 400],
  [`POST /repos HTTP/1.1\r\n${head}Content-Length: 3, 4\r\n\r\n`, 400],
  [`GET /health HTTP/1.1\r\n${head}X: ${'x'.repeat(20_000)}\r\n\r\n`, 431],
  [`CONNECT example.com:443 HTTP/1.1\r\n${last}`, 404],
  ...['CONNECT', 'TRACE', 'PUT', 'FOO', 'foo', 'PROPFIND'].flatMap((method): [string, number][] => [
    [`${method} / HTTP/1.1\r\n${last}`, 405],
    [`${method} /r/site HTTP/1.1\r\n${last}`, 405],
    [`${method} /-/login HTTP/1.1\r\n${last}`, 405],
    [`${method} /-/nowhere HTTP/1.1\r\n${last}`, 404],
    [`${method} /health HTTP/1.1\r\n${last}`, 405],
  ]),
]

test('every response, however odd its request, has the headers of all and a status line', async () => {
  for (const [request, status] of requests) {
    const answer = await ask(request)
    const about = `${request.slice(0, 60)}: ${answer?.head}`
    assert.equal(answer?.status, status, about)
    assert.ok(answer.head.startsWith(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n`), about)
    assert.match(answer.head, /^content-security-policy: default-src 'none'/im, about)
    assert.match(answer.head, /^x-content-type-options: nosniff\r$/im, about)
    assert.match(answer.head, /^cache-control: (no-store|private, no-cache)\r$/im, about)
    // The others have not been read as a request.
    if (request.includes('%')) assert.match(answer.head, /^x-request-id: \w{26}\r$/im, about)
    if (status !== 405) continue
    const path = request.split(' ')[1] ?? ''
    const allow =
      path === '/health'
        ? 'GET, HEAD, OPTIONS'
        : path === '/-/login'
          ? 'GET, HEAD, POST'
          : 'GET, HEAD'
    assert.match(answer.head, new RegExp(`^allow: ${allow}\\r$`, 'im'), about)
  }
})
