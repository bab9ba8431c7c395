import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

export type FaultyProxy = Awaited<ReturnType<typeof startFaultyProxy>>

/** Starts a proxy to a port of the loopback address, which can behave like a bad network. */
export async function startFaultyProxy(targetPort: number) {
  const sockets = new Set<Socket>()
  let port = targetPort
  let isSilent = false
  let doomed: string | undefined

  const server = createServer((client) => {
    const target = connect(port, '127.0.0.1')
    pass(client, target, (chunk) => {
      if (doomed === undefined || !chunk.includes(doomed)) return
      doomed = undefined
      // The request arrives, its answer does not.
      target.write(chunk, () => client.resetAndDestroy())
      return true
    })
    pass(target, client)
  })

  function pass(from: Socket, to: Socket, take?: (chunk: Buffer) => boolean | undefined): void {
    sockets.add(from)
    from.on('error', () => {})
    from.on('close', () => {
      sockets.delete(from)
      to.destroy()
    })
    from.on('data', (chunk: Buffer) => {
      if (isSilent || take?.(chunk)) return
      if (!to.write(chunk)) {
        from.pause()
        to.once('drain', () => from.resume())
      }
    })
  }

  function cut(): void {
    for (const socket of sockets) socket.resetAndDestroy()
  }

  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  // A TCP server's address is neither null nor a path once it listens.
  const address = server.address() as AddressInfo
  return {
    port: address.port,

    /** Resets all connections. */
    cut,

    /** Swallows all bytes until the returned function is called, which resets the connections that lost some. */
    swallow(): () => void {
      isSilent = true
      return () => {
        isSilent = false
        cut()
      }
    },

    /** Resets the next connection whose client sends a text, once the text has been passed on. */
    loseAnswerTo(text: string): void {
      doomed = text
    },

    /** Connects to another port from now on. */
    redirect(to: number): void {
      port = to
      cut()
    },

    [Symbol.dispose](): void {
      server.close()
      cut()
    },
  }
}
