import type { Socket } from 'node:net'

/** A receiver has sent more than anybody will read. */
export class ResponseTooLargeError extends Error {
  override readonly name = 'AnswerTooLong'
}

/**
 * Ends a connection on which more comes than so many bytes since something was last written to it. The parser of HTTP limits
 * headers, but neither a reason phrase nor how many provisional answers there are before the real one.
 */
export function limitResponse(socket: Socket, mostBytes: number): Socket {
  const push = socket.push.bind(socket)
  let written = socket.bytesWritten
  let received = 0
  socket.push = (chunk, encoding) => {
    if (written !== socket.bytesWritten) received = 0
    written = socket.bytesWritten
    received += chunk?.length ?? 0
    if (received <= mostBytes) return push(chunk, encoding)
    socket.destroy(new ResponseTooLargeError('the answer is too long'))
    return false
  }
  return socket
}
