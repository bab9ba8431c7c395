import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { test } from 'node:test'
import { collectBody } from './json-body.ts'

test('the body of a client that has gone is not waited for', async () => {
  const server = createServer()
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  const client = connect(port, '127.0.0.1')
  client.write('POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\n{')
  const [request] = await once(server, 'request')
  request.on('error', () => {})
  client.destroy()
  await new Promise((resolve) => request.once('close', resolve))
  const limits = { maxBytes: 100, timeoutMs: 2 ** 30 }
  await assert.rejects(collectBody(request, limits), /ended before it was complete/)
  server.close()
})
