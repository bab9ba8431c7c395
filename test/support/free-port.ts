import { readFileSync } from 'node:fs'
import { createServer, type ListenOptions } from 'node:net'

// The system gives the ports of this range to connections, and to servers that leave the choice to it.
const [firstEphemeral = 32_768] = readFileSync('/proc/sys/net/ipv4/ip_local_port_range', 'utf8')
  .trim()
  .split(/\s+/)
  .map(Number)
// 10080 is the highest one that browsers and `fetch` refuse.
const lowest = 10_081
const maxTries = 1000

/**
 * A free port of the loopback address, which no other process gets while this one runs: not from the system, nor from
 * this function. It is for servers that take a number only, or that start again on the same port.
 */
export async function freePort(): Promise<number> {
  const count = firstEphemeral - lowest
  if (count < maxTries) throw new Error(`There are too few ports below ${firstEphemeral}.`)
  for (let tries = 0; tries < maxTries; tries++) {
    const port = lowest + Math.floor(Math.random() * count)
    if ((await reserve(port)) && (await canListen(port))) return port
  }
  throw new Error(`None of ${maxTries} ports is free.`)
}

/** Reserves a port among the processes of tests by an abstract socket, which ends with this process. */
async function reserve(port: number): Promise<boolean> {
  const server = await listen({ path: `\0svc-test-port-${port}` })
  server?.unref()
  return server !== undefined
}

async function canListen(port: number): Promise<boolean> {
  const server = await listen({ port, host: '127.0.0.1' })
  await server?.[Symbol.asyncDispose]()
  return server !== undefined
}

function listen(options: ListenOptions) {
  return new Promise<ReturnType<typeof createServer> | undefined>((resolve) => {
    const server = createServer()
    server.once('error', () => resolve(undefined)).listen(options, () => resolve(server))
  })
}
