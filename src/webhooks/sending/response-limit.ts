import type { Socket } from 'node:net'

/** A receiver has sent more than the limit. */
export class ResponseTooLargeError extends Error {
  override readonly name = 'ResponseTooLargeError'
}

/**
 * Destroys a connection that receives more than `maxBytes` since the last write. The HTTP parser limits headers, but
 * neither the reason phrase nor the number of interim responses.
 */
export function limitResponse(socket: Socket, maxBytes: number): Socket {
  const push = socket.push.bind(socket)
  let written = socket.bytesWritten
  let received = 0
  socket.push = (chunk, encoding) => {
    if (written !== socket.bytesWritten) received = 0
    written = socket.bytesWritten
    received += chunk?.length ?? 0
    if (received <= maxBytes) return push(chunk, encoding)
    socket.destroy(new ResponseTooLargeError('the response is too large'))
    return false
  }
  return socket
}
