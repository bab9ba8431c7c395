import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

/** Returns the bytes to pass on; undefined cuts the connection. */
type Filter = (chunk: Buffer) => Buffer | undefined

/** How a connection is treated; bytes without a filter pass as they are. */
export type Treatment = { fromClient?: Filter; fromServer?: Filter }

/** Starts a proxy to a port of the loopback address, which treats each connection by its number, from 0. */
export async function startTcpProxy(
  port: number,
  treat: (connection: number) => Treatment,
  ownPort = 0,
) {
  const sockets = new Set<Socket>()
  let connections = 0

  const server = createServer((client) => {
    const target = connect(port, '127.0.0.1')
    const { fromClient, fromServer } = treat(connections++)
    const pass = (from: Socket, to: Socket, filter: Filter = (chunk) => chunk) => {
      sockets.add(from)
      from.on('error', () => {})
      from.on('close', () => {
        sockets.delete(from)
        to.destroy()
      })
      from.on('data', (chunk: Buffer) => {
        const passed = filter(chunk)
        if (passed) to.write(passed)
        else from.resetAndDestroy()
      })
    }
    pass(client, target, fromClient)
    pass(target, client, fromServer)
  })
  server.listen(ownPort, '127.0.0.1')
  await once(server, 'listening')
  // A TCP server's address is neither null nor a path once it listens.
  const address = server.address() as AddressInfo
  return {
    port: address.port,
    /** The number of connections so far. */
    connections: () => connections,
    [Symbol.dispose]() {
      server.close()
      for (const socket of sockets) socket.destroy()
    },
  }
}
