import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { Sensitive } from '#base/sensitive.ts'
import { createServerClient, RefusedRequestError } from './server-client.ts'

const content = randomBytes(1_500_001)

/** A client of a server that responds, and what it receives of a body. */
async function site(respond: (request: IncomingMessage, response: ServerResponse) => void) {
  const requests: string[] = []
  const server = createServer((request, response) => {
    requests.push(`${request.method} ${request.url} ${request.headers.authorization}`)
    respond(request, response)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  // A TCP server's address is neither null nor a path once it listens.
  const { port } = server.address() as AddressInfo
  const client = createServerClient(new URL(`http://127.0.0.1:${port}/svc/`))
  const parts: Buffer[] = []
  return {
    requests,
    received: () => Buffer.concat(parts),
    receive: (signal = new AbortController().signal, write = async () => {}) =>
      client.receive(
        { method: 'GET', path: '/a?b=c', token: new Sensitive('secret'), timeoutMs: 5000, signal },
        async (bytes) => {
          parts.push(Buffer.from(bytes))
          await write()
        },
      ),
    [Symbol.dispose]() {
      client.close()
      server.closeAllConnections()
      server.close()
    },
  }
}

test('a body with its length is received with one request', async () => {
  using it = await site((_, response) => {
    response.setHeader('content-length', content.length)
    response.end(content)
  })
  await it.receive()
  assert.ok(it.received().equals(content))
  assert.deepEqual(it.requests, ['GET /svc/a?b=c Bearer secret'])
})

test('a body of any other form is received, too', async () => {
  using it = await site((_, response) => {
    response.write(content.subarray(0, 1000))
    response.end(content.subarray(1000))
  })
  await it.receive()
  assert.ok(it.received().equals(content))
})

test('an error status is the problem of the service, and nothing is written', async () => {
  using it = await site((_, response) => {
    response.writeHead(409, { 'content-type': 'application/problem+json' })
    response.end(JSON.stringify({ code: 'run_lost', detail: 'It has another runner.' }))
  })
  await assert.rejects(it.receive(), (error) => {
    assert.ok(error instanceof RefusedRequestError)
    assert.deepEqual([error.status, error.code], [409, 'run_lost'])
    return true
  })
  assert.equal(it.received().length, 0)
})

test('content that is gone is an error', async () => {
  using it = await site((_, response) => void response.writeHead(204).end())
  await assert.rejects(it.receive(), /The content is gone/)
})

test('a body that is cut is an error, and so are a failed write and an abort', async () => {
  using cut = await site((_, response) => {
    response.setHeader('content-length', content.length)
    response.write(content.subarray(1), () => response.destroy())
  })
  await assert.rejects(cut.receive(), /The connection to the server was closed/)
  const endless = await site((_, response) => {
    response.setHeader('content-length', 10 * content.length)
    response.write(content)
  })
  using _endless = endless
  const failing = async () => {
    throw new Error('no space')
  }
  await assert.rejects(endless.receive(undefined, failing), /no space/)
  const stop = new AbortController()
  const stopping = async () => stop.abort()
  await assert.rejects(endless.receive(stop.signal, stopping), /was closed/)
})
