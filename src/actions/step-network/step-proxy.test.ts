import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { createServer as createHttpServer, type RequestListener } from 'node:http'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { text as readText } from 'node:stream/consumers'
import { test } from 'node:test'
import { type HostRule, parseHostRule } from '#base/outbound/host-rules.ts'
import { createOutbound } from '#base/outbound/outbound.ts'
import { exhaustive } from '../../../test/support/exhaustive.ts'
import { createStepProxy, type ProxyLimits } from './step-proxy.ts'

type Place = Awaited<ReturnType<typeof openPlace>>

const options = { timeout: 60_000 }

test(
  'a request goes to the named host, without the headers of the connection',
  options,
  async () => {
    await using place = await openPlace({ rules: ['site.test:*', 'other.test:*'] })
    const { port } = place.web
    const request = [
      `POST http://SITE.test:${port}/a/../b?c=%20d HTTP/1.1`,
      ...['Host: other.test', 'Proxy-Authorization: Basic c2VjcmV0', 'Connection: x-hop, close'],
      ...['X-Hop: 1', 'X-Kept: 2', 'TE: trailers', 'Transfer-Encoding: chunked', '', '3'],
      ...['abc', '0', '', ''],
    ]
    const response = await place.send(request.join('\r\n'))
    assert.match(response, /^HTTP\/1\.1 201 Made\r\n/)
    assert.match(response, /\r\nVia: 1\.1 svc\r\n/)
    assert.match(response, /\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n/)
    assert.doesNotMatch(response, /X-Named/)
    const seen = JSON.parse(response.slice(response.indexOf('{'), response.lastIndexOf('}') + 1))
    assert.deepEqual([seen.method, seen.url, seen.body], ['POST', '/a/../b?c=%20d', 'abc'])
    const { host, via, connection, ...others } = seen.headers
    assert.deepEqual([host, via, connection], [`site.test:${port}`, '1.1 svc', 'close'])
    assert.deepEqual(others, { 'x-kept': '2', 'transfer-encoding': 'chunked' })
    assert.deepEqual(place.log, [`network: site.test:${port} allowed`])
  },
)

test('CONNECT is a tunnel for any bytes, also those that follow at once', options, async () => {
  await using place = await openPlace({ rules: ['site.test:*'] })
  const { port } = place.echo
  const response = await place.send(`CONNECT site.test:${port} HTTP/1.1\r\n\r\nearly`, {
    end: true,
  })
  assert.equal(response, 'HTTP/1.1 200 Connection established\r\n\r\nearly')
  assert.deepEqual(place.log, [`network: site.test:${port} allowed`])
})

test(
  'inner addresses are refused in every spelling, and names that have one',
  options,
  async () => {
    await using place = await openPlace({ rules: ['*:*'], classes: ['external'] })
    const spellings = [
      ...['127.0.0.1', '127.1', '2130706433', '0x7f000001', '0177.0.0.1', '0.0.0.0', '0'],
      ...[
        '[::1]',
        '[::]',
        '[::ffff:127.0.0.1]',
        '[::ffff:7f00:1]',
        '[64:ff9b::7f00:1]',
        'site.test',
      ],
      ...['169.254.169.254', '[fd00:ec2::254]', '100.100.100.200', '10.0.0.1', '[fe80::1]'],
      ...['inner.test', 'mixed.test', 'site.test.', '127。0。0。1'],
    ]
    const { port } = place.web
    for (const host of spellings) {
      const requests = [
        `GET http://${host}:${port}/ HTTP/1.1\r\nHost: x\r\n\r\n`,
        `CONNECT ${host}:${port} HTTP/1.1\r\nHost: x\r\n\r\n`,
      ]
      for (const request of requests) {
        assert.match(
          await place.send(request),
          /^HTTP\/1\.1 (403 Forbidden|400 Bad Request)\r\n/,
          host,
        )
      }
    }
    assert.equal(place.web.requests(), 0)
    assert.ok(
      place.log.every((line) =>
        / refused: It has .* address.*, which steps may not reach/.test(line),
      ),
    )
    assert.match(place.log[0] ?? '', /^network: 127\.0\.0\.1:\d+ refused: .* lists "loopback"\.$/)
    assert.ok(!place.log.join().includes('10.9.9.9'))
  },
)

test(
  'a name is looked up once, and connected to at the address that was checked',
  options,
  async () => {
    let lookups = 0
    const lookup = async () => [{ address: lookups++ === 0 ? '127.0.0.1' : '10.9.9.9' }]
    await using place = await openPlace({ rules: ['rebinding.test:*'], lookup })
    const request = `GET http://rebinding.test:${place.web.port}/ HTTP/1.1\r\nHost: x\r\n\r\n`
    assert.match(await place.send(request), /^HTTP\/1\.1 201/)
    assert.equal(lookups, 1)
    assert.match(await place.send(request), /^HTTP\/1\.1 403/)
  },
)

test('hosts and ports beyond the list are refused, and not looked up', options, async () => {
  await using place = await openPlace({ rules: ['site.test:443', '*.sub.test'] })
  for (const target of ['other.test:443', 'site.test:22', 'sub.test:443', 'a.sub.test:8443']) {
    const response = await place.send(`CONNECT ${target} HTTP/1.1\r\n\r\n`)
    assert.match(response, /^HTTP\/1\.1 403 Forbidden\r\n.*The network of this step does not/s)
    assert.equal(
      place.log.pop(),
      `network: ${target} refused: The network of this step does not include it.`,
    )
  }
  assert.deepEqual(place.names, [])
})

test('a redirect is for the client to follow', options, async () => {
  await using place = await openPlace({ rules: ['site.test:*'] })
  const request = `GET http://site.test:${place.web.port}/redirect HTTP/1.1\r\nHost: x\r\n\r\n`
  const response = await place.send(request)
  assert.match(response, /^HTTP\/1\.1 302 .*\r\nLocation: http:\/\/169\.254\.169\.254\/\r\n/s)
  assert.equal(place.web.requests(), 1)
})

test('what is no request for a host is answered with the reason', options, async () => {
  await using place = await openPlace({ rules: ['*:*'] })
  const faults: [start: string, reason: RegExp][] = [
    ['GET / HTTP/1.1', /400 .*This is a proxy: it takes CONNECT/s],
    ['GET ftp://site.test/ HTTP/1.1', /400 .*The scheme ftp is not supported/s],
    ['GET https://site.test/ HTTP/1.1', /400 .*use CONNECT for all but http/s],
    ['GET http://user:pw@site.test/ HTTP/1.1', /400 .*is not a host/s],
    ['GET http://site.test:0/ HTTP/1.1', /400 .*is not a host/s],
    ['CONNECT site.test HTTP/1.1', /400 .*is not a host and a port/s],
    ['CONNECT / HTTP/1.1', /400 /s],
    ['GET http://absent.test/ HTTP/1.1', /502 .*The host "absent.test" is unknown/s],
  ]
  for (const [start, reason] of faults) {
    assert.match(await place.send(`${start}\r\nHost: x\r\n\r\n`), reason, start)
  }
  const closed = await closedPort()
  const refused = await place.send(`CONNECT site.test:${closed} HTTP/1.1\r\n\r\n`)
  assert.match(refused, /^HTTP\/1\.1 502 .*The connection was refused/s)
  assert.equal(place.log.at(-1), `network: site.test:${closed} failed: The connection was refused.`)
})

test('a host that does not speak HTTP is answered for', options, async () => {
  await using place = await openPlace({ rules: ['site.test:*'] })
  const request = `GET http://site.test:${place.echo.port}/ HTTP/1.1\r\nHost: x\r\n\r\n`
  assert.match(await place.send(request), /^HTTP\/1\.1 502 .*The host does not speak HTTP/s)
})

test('clients that send too much or too slowly are disconnected', options, async () => {
  const answer = async (limits: Partial<ProxyLimits>, request: (place: Place) => string) => {
    await using place = await openPlace({ rules: ['site.test:*'], limits })
    return await place.send(request(place))
  }
  const start = ({ web }: Place) => `GET http://site.test:${web.port}/ HTTP/1.1\r\nHost: x\r\n`
  const large = (place: Place) => `${start(place)}X: ${'x'.repeat(2000)}\r\n\r\n`
  const tunnel = ({ echo }: Place) => `CONNECT site.test:${echo.port} HTTP/1.1\r\n\r\n`
  assert.match(await answer({ headersMaxBytes: 1000 }, large), /^HTTP\/1\.1 431 /)
  assert.match(await answer({ headersTimeoutMs: 200 }, start), /^HTTP\/1\.1 408 /)
  const idle = await answer({ idleMs: 1500 }, tunnel)
  assert.equal(idle, 'HTTP/1.1 200 Connection established\r\n\r\n')
})

test('connections beyond the limit are closed, and the log says so once', options, async () => {
  await using place = await openPlace({ rules: ['site.test:*'], limits: { connections: 2 } })
  const held = [await place.open(), await place.open()]
  assert.equal(await place.send('GET / HTTP/1.1\r\nHost: x\r\n\r\n'), '')
  assert.equal(await place.send('GET / HTTP/1.1\r\nHost: x\r\n\r\n'), '')
  assert.deepEqual(place.log, [
    'network: more than 2 connections at a time; further ones are closed',
  ])
  for (const socket of held) socket.destroy()
})

test('pipelined requests open one connection', { ...exhaustive, ...options }, async () => {
  await using place = await openPlace({ rules: ['site.test:*'] })
  const request = `GET http://site.test:${place.web.port}/ HTTP/1.1\r\nHost: x\r\n\r\n`
  const response = await place.send(request.repeat(2000))
  assert.match(response, /^HTTP\/1\.1 201 /)
  assert.doesNotMatch(response.slice(12), /HTTP\/1\.1 2/)
  assert.deepEqual([place.web.requests(), place.log.length], [1, 1])
})

test(
  'the connections of a command end with it, on both sides, and there are none between commands',
  options,
  async () => {
    await using place = await openPlace({ rules: ['site.test:*'] })
    const socket = await place.open()
    socket.write(`CONNECT site.test:${place.echo.port} HTTP/1.1\r\n\r\n`)
    await once(socket, 'data')
    assert.equal(place.echo.open(), 1)
    place.end()
    await once(socket, 'close')
    while (place.echo.open() > 0) await new Promise((resolve) => setTimeout(resolve, 5))
    assert.equal(await place.send('GET / HTTP/1.1\r\nHost: x\r\n\r\n'), '')
    assert.equal(place.log.length, 1)
  },
)

test(
  'a connection that an ended command left in the queue is not served to the next one',
  options,
  async () => {
    await using place = await openPlace({ rules: ['site.test:*'] })
    place.end()
    const left = connect(place.port, '127.0.0.1')
    left.on('error', () => {})
    const closed = once(left, 'close')
    left.write(`GET http://site.test:${place.web.port}/ HTTP/1.1\r\nHost: x\r\n\r\n`)
    await once(left, 'connect')
    await place.begin()
    await closed
    assert.deepEqual([place.log, place.web.requests()], [[], 0])
  },
)

test('none of many connections that an ended command left in the queue is served to the next one', {
  ...exhaustive,
  ...options,
}, async () => {
  await using place = await openPlace({ rules: ['site.test:*'] })
  place.end()
  const request = `GET http://site.test:${place.web.port}/ HTTP/1.1\r\nHost: x\r\n\r\n`
  // Meanwhile this process accepts none.
  execFileSync(process.execPath, ['-e', leaveConnections, String(place.port), request])
  await place.begin()
  // The queue is served in order, so this one comes last.
  assert.match(await place.send(request), /^HTTP\/1\.1 201 /)
  assert.deepEqual([place.log.length, place.web.requests()], [1, 1])
})

/** A program that sends a request on each of 100 connections, and ends. */
const leaveConnections = `
const [port, request] = process.argv.slice(1)
let sent = 0
for (let number = 0; number < 100; number++) {
  const socket = require('node:net').connect(Number(port), '127.0.0.1')
  socket.write(request, () => ++sent === 100 && process.exit())
}`

type PlaceOptions = {
  rules: string[]
  classes?: ('external' | 'loopback')[]
  lookup?: (name: string) => Promise<{ address: string }[]>
  limits?: Partial<ProxyLimits>
}

const names: Record<string, string[]> = {
  'site.test': ['127.0.0.1'],
  'other.test': ['127.0.0.1'],
  'inner.test': ['10.9.9.9'],
  'mixed.test': ['8.8.8.8', '10.9.9.9'],
}

/** A proxy with a command in progress, and a web server and an echo server to reach. */
async function openPlace({ rules, classes = ['loopback'], lookup, limits }: PlaceOptions) {
  await using stack = new AsyncDisposableStack()
  const asked: string[] = []
  const log: string[] = []
  const outbound = createOutbound({
    allow: { classes, ranges: [], names: [] },
    describe: ({ phrase, entries }) =>
      `It has ${phrase}, which steps may not reach unless the list lists "${entries[0]}".`,
    lookup:
      lookup ??
      (async (name) => {
        asked.push(name)
        const found = names[name]
        if (!found) throw Object.assign(new Error(name), { code: 'ENOTFOUND' })
        return found.map((address) => ({ address }))
      }),
  })
  const web = await serveWeb(stack)
  const echo = await serveEcho(stack)
  const listener = createServer()
  const port = await listen(listener)
  const proxy = stack.use(
    createStepProxy({
      listener,
      outbound,
      limits: {
        ...{ connections: 100, headersMaxBytes: 16_384, headersTimeoutMs: 30_000 },
        ...{ connectTimeoutMs: 5000, idleMs: 30_000 },
        ...limits,
      },
    }),
  )
  const access = {
    rules: rules.map(ruleOf),
    log: async (line: string) => void log.push(line),
  }
  let command = await proxy.begin(access)
  const owned = stack.move()
  return {
    ...{ web, echo, log, names: asked, port },
    end: () => command[Symbol.dispose](),
    async begin() {
      command = await proxy.begin(access)
    },
    async open(): Promise<Socket> {
      const socket = connect(port, '127.0.0.1')
      socket.on('error', () => {})
      await once(socket, 'connect')
      return socket
    },
    /** Sends bytes on a connection of their own: all that comes back. */
    async send(bytes: string, { end = false } = {}): Promise<string> {
      const socket = await this.open()
      socket.write(bytes)
      if (end) socket.end()
      return await readText(socket).catch(() => '')
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

const allPorts = Array.from({ length: 65_535 }, (_, index) => index + 1)

/** A rule; the port `*` is any. */
function ruleOf(text: string): HostRule {
  const isForAll = text.endsWith(':*')
  const rule = parseHostRule(isForAll ? text.slice(0, -2) : text)
  assert.ok(typeof rule !== 'string', String(rule))
  return isForAll ? { ...rule, ports: allPorts } : rule
}

async function serveWeb(stack: AsyncDisposableStack) {
  let count = 0
  const answer: RequestListener = async (request, response) => {
    count += 1
    const { method, url, headers } = request
    if (url === '/redirect') {
      response.writeHead(302, { Location: 'http://169.254.169.254/' }).end()
      return
    }
    const cookies = ['Set-Cookie', 'a', 'Set-Cookie', 'b']
    const named = ['X-Named', '1', 'Connection', 'x-named, close']
    response.writeHead(201, 'Made', [...cookies, ...named])
    response.end(JSON.stringify({ method, url, headers, body: await readText(request) }))
  }
  const server = stack.use(createHttpServer(answer))
  return { port: await listen(server), requests: () => count }
}

async function serveEcho(stack: AsyncDisposableStack) {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.on('close', () => sockets.delete(socket))
    socket.pipe(socket)
  })
  stack.defer(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return { port: await listen(server), open: () => sockets.size }
}

async function listen(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  // A TCP server's address is neither null nor a path once it listens.
  return (server.address() as AddressInfo).port
}

async function closedPort(): Promise<number> {
  await using server = createServer()
  return await listen(server)
}
