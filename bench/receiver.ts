import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

// A process of its own, which answers at once: in that of the bench, what the bench itself does would delay it.

let arrivals: number[] = []

const server = createServer((request, response) => {
  arrivals.push(Date.now())
  request.resume().on('end', () => response.writeHead(204).end())
})
server.keepAliveTimeout = 60_000
server.listen(0, '127.0.0.1', () => {
  // It listens on TCP, so it has an address of this form.
  const { port } = server.address() as AddressInfo
  process.send?.(`http://127.0.0.1:${port}/hook`)
})

// Each message asks for the times at which requests have come since the one before.
process.on('message', () => {
  process.send?.(arrivals)
  arrivals = []
})
process.on('disconnect', () => process.exit())
