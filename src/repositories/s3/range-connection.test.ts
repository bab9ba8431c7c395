import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { test } from 'node:test'
import { openRangeConnection } from './range-connection.ts'
import { S3Error } from './s3-error.ts'

const total = 2_000_000
const range = { start: 1_000_000, bytes: 700_001 }
const content = randomBytes(range.bytes)

const contentRange = `content-range: bytes ${range.start}-${range.start + range.bytes - 1}/${total}`
const head = (...lines: string[]) => `${lines.join('\r\n')}\r\n\r\n`
const wanted = ['HTTP/1.1 206 Partial Content', `Content-Length: ${range.bytes}`, contentRange]

/** A server that handles each request, and a connection to it. */
async function site(
  respond: (socket: Socket, request: string) => void,
  { timeoutMs = 10_000 } = {},
) {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.on('data', (request) => respond(socket, String(request)))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  // A TCP server's address is neither null nor a path once it listens.
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const connection = openRangeConnection({ endpoint, connectTimeoutMs: 3000, timeoutMs })
  const written = Buffer.alloc(total)
  let writes = 0
  const write = async (bytes: Buffer, position: number) => {
    writes++
    const at = bytes.copy(written, position)
    // The bytes are valid until then.
    await new Promise((resolve) => setTimeout(resolve, 5))
    assert.ok(bytes.equals(written.subarray(position, position + at)))
  }
  const request = { path: '/a', headers: { 'x-test': 'yes' }, range, total, write }
  return {
    connection,
    writes: () => writes,
    get: (changes = {}) =>
      connection.get({ ...request, signal: new AbortController().signal, ...changes }),
    received: () => written.subarray(range.start, range.start + range.bytes),
    [Symbol.dispose]() {
      connection[Symbol.dispose]()
      server.close()
      for (const socket of sockets) socket.destroy()
    },
  }
}

const isUnavailable = (text: RegExp) => (error: unknown) =>
  error instanceof S3Error && error.code === 'unavailable' && text.test(error.message)

test('ranges are written as they come, one after another over a connection', async () => {
  const requests: string[] = []
  using it = await site((socket, request) => {
    requests.push(request)
    socket.write(head(...wanted))
    socket.write(content)
  })
  for (let round = 0; round < 3; round++) {
    assert.equal(await it.get(), true)
    assert.ok(it.received().equals(content))
    it.received().fill(0)
  }
  assert.match(requests[0] ?? '', /^GET \/a HTTP\/1\.1\r\n(?:.+\r\n)*x-test: yes\r\n/)
  assert.match(requests[0] ?? '', /\r\nrange: bytes=1000000-1700000\r\n/)
  assert.equal(requests.length, 3)
  assert.equal(it.connection.isClosed(), false)
})

test('a response may come in pieces of any size', async () => {
  const response = Buffer.concat([Buffer.from(head(...wanted)), content])
  for (const [first, rest] of [
    [1, 1000],
    [130, 65_536],
    [20_000, 500_000],
  ] as const) {
    using it = await site((socket) => {
      const send = (sent: number) => {
        if (sent >= response.length) return
        const end = sent + (sent < 200 ? first : rest)
        socket.write(response.subarray(sent, end))
        setImmediate(() => send(end))
      }
      send(0)
    })
    assert.equal(await it.get(), true)
    assert.ok(it.received().equals(content))
  }
})

test('a response that is not the range with its length is not read, and closes the connection', async () => {
  const [status = '', length = ''] = wanted
  for (const lines of [
    ['HTTP/1.1 200 OK', length],
    ['HTTP/1.1 404 Not Found', length, contentRange],
    ['HTTP/1.0 206 Partial Content', length, contentRange],
    [status, length],
    [status, contentRange],
    [status, 'Content-Length: 5', contentRange],
    [status, length, length, contentRange],
    [status, length, contentRange.replace('1000000', '1000001')],
    [status, length, contentRange.replace('/2000000', '/2000001')],
    [...wanted, 'Transfer-Encoding: chunked'],
    [...wanted, 'Content-Encoding: gzip'],
    ['ICY 206 OK', length, contentRange],
  ]) {
    using it = await site((socket) => {
      socket.write(head(...lines))
      socket.write(content)
    })
    assert.equal(await it.get(), false, lines.join('\n'))
    assert.equal(it.writes(), 0)
    assert.equal(it.connection.isClosed(), true)
  }
})

test('a connection that is cut, silent or garbled is unavailable', async () => {
  const cut = (socket: Socket) =>
    socket.end(Buffer.concat([Buffer.from(head(...wanted)), content.subarray(1)]))
  const reset = (socket: Socket) => {
    socket.write(head(...wanted), () => socket.resetAndDestroy())
  }
  const hang = (socket: Socket) => socket.write(head(...wanted))
  const garble = (socket: Socket) => socket.write('x'.repeat(100_000))
  for (const [respond, text, options] of [
    [cut, /was closed/, {}],
    [hang, /timed out/, { timeoutMs: 200 }],
    [() => {}, /timed out/, { timeoutMs: 200 }],
    [garble, /is garbled/, {}],
  ] as const) {
    using it = await site(respond, options)
    await assert.rejects(it.get(), isUnavailable(text))
    assert.equal(it.connection.isClosed(), true)
    await assert.rejects(it.get(), isUnavailable(/was closed/))
  }
  using it = await site(reset)
  await assert.rejects(it.get(), /ECONNRESET|was closed/)
})

test('bytes after a response close the connection', async () => {
  using it = await site((socket) => {
    socket.write(head(...wanted))
    socket.write(Buffer.concat([content, Buffer.alloc(100_000)]))
  })
  assert.equal(await it.get(), true)
  assert.ok(it.received().equals(content))
  await assert.rejects(it.get(), S3Error)
})

test('a connection is closed when the server wants it', async () => {
  using it = await site((socket) => {
    socket.write(head(...wanted, 'Connection: Close'))
    socket.write(content)
  })
  assert.equal(await it.get(), true)
  assert.equal(it.connection.isClosed(), true)
})

test('a failed write is the error, also of the last bytes', async () => {
  for (const failing of [1_000_000, range.start + range.bytes - 1]) {
    using it = await site((socket) => {
      socket.write(head(...wanted))
      socket.write(content)
    })
    const write = async (bytes: Buffer, position: number) => {
      await new Promise((resolve) => setTimeout(resolve, 5))
      if (position <= failing && failing < position + bytes.length) throw new Error('ENOSPC')
    }
    await assert.rejects(it.get({ write }), /ENOSPC/)
    assert.equal(it.connection.isClosed(), true)
  }
})

test('an aborted request closes its connection, once nothing is written any more', async () => {
  const stop = new AbortController()
  using it = await site((socket) => {
    socket.write(head(...wanted))
    socket.write(content.subarray(0, 600_000))
  })
  let writing = 0
  const write = async () => {
    writing++
    stop.abort()
    await new Promise((resolve) => setTimeout(resolve, 20))
    writing--
  }
  await assert.rejects(it.get({ write, signal: stop.signal }), isUnavailable(/was closed/))
  assert.equal(writing, 0)
  assert.equal(it.connection.isClosed(), true)
})
