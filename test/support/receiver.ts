import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { until } from './condition.ts'

/** A request that a receiver was sent. */
export type Received = {
  path: string
  headers: IncomingHttpHeaders
  body: Buffer
  // What a body holds is what the tests are about.
  // biome-ignore lint/suspicious/noExplicitAny: see above
  json: any
}

type Answer = (received: Received, response: ServerResponse) => void

export type Receiver = Awaited<ReturnType<typeof startReceiver>>

/** A receiver of webhooks on loopback that keeps what it is sent, in the order in which it came, and answers 204. */
export async function startReceiver(
  answer: Answer = (_received, response) => response.writeHead(204).end(),
) {
  const received: Received[] = []
  let connections = 0
  let current = answer
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    // A sender that is killed in between has sent nothing.
    request.on('error', () => {})
    request.on('end', () => {
      const body = Buffer.concat(chunks)
      const { url: path = '', headers } = request
      const one = { path, headers, body, json: JSON.parse(body.toString()) }
      received.push(one)
      current(one, response)
    })
  })
  server.on('connection', () => {
    connections += 1
  })
  server.keepAliveTimeout = 30_000
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  // It listens on TCP.
  const { port } = server.address() as AddressInfo

  return {
    url: `http://127.0.0.1:${port}/hook`,
    receiver: `127.0.0.1:${port}`,
    received,
    connections: () => connections,

    /** Has it answer otherwise from now on. */
    answerWith(next: Answer): void {
      current = next
    },

    /** Waits until it has received a number of requests. */
    untilReceived: (count: number) =>
      until(`the receiver has been sent ${count} requests`, () =>
        received.length >= count ? received : false,
      ),

    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
