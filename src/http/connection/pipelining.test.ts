import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { test } from 'node:test'
import { inSequence } from './pipelining.ts'

test('a client that does not read gets no further responses prepared', async () => {
  const response = Buffer.alloc(2 ** 20)
  let handled = 0
  const server = createServer(
    inSequence(({ url }, answer) => {
      if (url === '/large') handled++
      answer.end(url === '/large' ? response : '')
    }),
  )
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  // Far more than the buffers of a connection hold.
  const sent = 90
  const client = connect(port, '127.0.0.1').pause()
  await new Promise((done) =>
    client.write('GET /large HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(sent), done),
  )
  // By the time of the second, all that Node takes from one read is handed over.
  for (let count = 0; count < 2; count++) await fetch(`http://127.0.0.1:${port}/small`)
  const handledMeanwhile = handled
  client.destroy()
  server.close().closeAllConnections()
  assert.ok(handledMeanwhile > 0 && handledMeanwhile < sent, `${handledMeanwhile} of ${sent}`)
})
