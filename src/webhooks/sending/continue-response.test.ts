import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { test } from 'node:test'
import { createOutbound } from '#base/outbound/outbound.ts'
import { createConnections } from './receiver-connections.ts'
import { createSender } from './sender.ts'

const interim = 'HTTP/1.1 100 Continue\r\n\r\n'
const final = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'

/** What a receiver sends for each request, each part for itself. */
const responses: Record<string, string[]> = {
  'with the response': [interim + final],
  'before the response': [interim, final],
  'with header fields': ['HTTP/1.1 100 Continue\r\nServer: a\r\n\r\n', final],
  'several times': [interim + interim, interim, interim + final],
  'among others': ['HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n', final],
}

for (const [name, parts] of Object.entries(responses)) {
  test(`100 Continue ${name} is no failure, on every request of a connection`, async () => {
    const server = createServer({ noDelay: true }, (socket) => {
      socket.on('error', () => {})
      socket.on('data', async () => {
        for (const part of parts) await new Promise((sent) => socket.write(part, sent))
      })
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const address = server.address()
    assert.ok(typeof address === 'object' && address)
    const connections = createConnections({
      outbound: createOutbound({
        allow: { classes: ['loopback'], ranges: [], names: [] },
        lookup: async () => [],
      }),
    })
    const { send } = createSender({ connections, clock: { now: Date.now } as never })
    try {
      for (let request = 0; request < 3; request++) {
        const { fault, responseStatus, responseBody } = await send({
          url: `http://127.0.0.1:${address.port}/`,
          lookupKey: 'ada',
          headers: { 'content-type': 'application/json' },
          body: Buffer.from('{}'),
          signal: new AbortController().signal,
        })
        assert.deepEqual([fault, responseStatus, responseBody], ['', 200, 'ok'])
      }
    } finally {
      await connections[Symbol.asyncDispose]?.()
      server.close()
    }
  })
}
