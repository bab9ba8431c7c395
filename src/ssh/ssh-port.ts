import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'

/** A port whose server starts with its first client. Nothing that a client sends is read here. */
type SshPort = Disposable & {
  host: string
  port: number
  /** Fulfilled when there is a client, or when the port is closed. */
  firstClient: Promise<void>
  /** Passes the port, then each waiting client, to another process. */
  handOver: (give: (handle: Server | Socket) => Promise<void>) => Promise<void>
}

type Options = {
  host: string
  port: number
  /** How many clients may wait for the server; others are disconnected. */
  maxClients: number
}

/** Listens. Throws with the settings to change when that fails. */
export async function openSshPort({ host, port, maxClients }: Options): Promise<SshPort> {
  const clients: Socket[] = []
  const { promise: firstClient, resolve: onClient } = Promise.withResolvers<void>()
  const server = createServer({ pauseOnConnect: true }, (client) => {
    client.on('error', () => {})
    clients.push(client)
    onClient()
  })
  server.maxConnections = maxClients
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, resolve)
  }).catch((error) => {
    const reason = error.code === 'EADDRINUSE' ? 'the port is in use' : error.message
    throw new Error(
      `SVC_SSH_HOST, SVC_SSH_PORT: cannot listen on ${host}, port ${port}: ${reason}; choose others, or SVC_SSH_PORT=off.`,
      { cause: error },
    )
  })
  // A TCP server's address is neither null nor a path once it listens.
  const { address, family, port: actual } = server.address() as AddressInfo
  return {
    host: family === 'IPv6' ? `[${address}]` : address,
    port: actual,
    firstClient,

    async handOver(give) {
      // First, so that the port is open all the time.
      await give(server)
      server.close()
      for (const client of clients.splice(0)) await give(client)
    },

    [Symbol.dispose]() {
      server.close()
      for (const client of clients.splice(0)) client.destroy()
      onClient()
    },
  }
}
