import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/**
 * Makes a server that closes end each connection when its last answer has been sent. Node by itself cuts
 * off answers that are complete but still on their way, and keeps connections open after their answer.
 */
export function closeGently(server: Server): void {
  const requests = new Map<Socket, number>()
  let closing = false

  function change(socket: Socket, by: 1 | -1): void {
    const count = (requests.get(socket) ?? 0) + by
    if (!socket.destroyed) requests.set(socket, count)
    if (closing && count === 0) socket.destroySoon()
  }

  server.on('connection', (socket: Socket) => {
    requests.set(socket, 0)
    socket.on('close', () => requests.delete(socket))
  })
  server.on('request', ({ socket }: IncomingMessage, response: ServerResponse) => {
    change(socket, 1)
    response.on('close', () => change(socket, -1))
  })
  // Called by Node when the server is told to close.
  server.closeIdleConnections = () => {
    closing = true
    for (const [socket, count] of requests) if (count === 0) socket.destroy()
  }
}
