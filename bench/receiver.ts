import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

// A separate process, so that the work of the benchmark does not delay responses.

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

// Each message requests the arrival times of requests since the previous one.
process.on('message', () => {
  process.send?.(arrivals)
  arrivals = []
})
process.on('disconnect', () => process.exit())
