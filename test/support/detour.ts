import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

/** Where a connection is cut: after a number of bytes of the client or the server; and how. */
export type Cut = { side: 'client' | 'server'; after: number; how: 'reset' | 'end' }

/** A detour to a port, for one connection, which may be cut at any byte. */
export async function startDetour(port: number, planned?: Cut) {
  const lengths = { client: 0, server: 0 }
  let isCut = false
  let cut = (_how: Cut['how']) => {}

  const sockets: Socket[] = []
  const server = createServer({ allowHalfOpen: true }, (client) => {
    const target = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
    sockets.push(client, target)
    cut = (how) => {
      isCut = true
      client.destroy()
      if (how === 'reset') target.resetAndDestroy()
      else target.end()
    }
    pass('client', client, target)
    pass('server', target, client)
  })

  // What comes after the cut is read and dropped: the client's end is not the end of what the server may say.
  function pass(side: Cut['side'], from: Socket, to: Socket): void {
    from.on('error', () => {})
    from.on('close', () => isCut || to.destroy())
    from.on('end', () => isCut || to.end())
    from.on('data', (bytes: Buffer) => {
      if (isCut) return
      const left = planned?.side === side ? planned.after - lengths[side] : bytes.length + 1
      const passed = bytes.subarray(0, left)
      lengths[side] += passed.length
      isCut = left <= bytes.length
      to.write(passed, () => planned && isCut && cut(planned.how))
    })
  }

  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  // A TCP server's address is neither null nor a path once it listens.
  const address = server.address() as AddressInfo
  return {
    port: address.port,
    /** Bytes that each side has sent. */
    lengths,
    /** Cuts the connection now. */
    cut: () => cut('reset'),
    [Symbol.dispose]() {
      server.close()
      for (const socket of sockets) socket.destroy()
    },
  }
}
