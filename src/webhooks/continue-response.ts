import type { Socket } from 'node:net'

const status = Buffer.from('HTTP/1.1 100')
const headEnd = '\r\n\r\n'

/**
 * Lets a receiver send `100 Continue`, which RFC 9110 allows although the request does not ask for it. undici accepts any
 * other interim response, so it is given 102 instead.
 */
export function acceptContinue(socket: Socket): Socket {
  const push = socket.push.bind(socket)
  let written = -1
  let isStart = false
  socket.push = (chunk, encoding) => {
    if (written !== socket.bytesWritten) isStart = true
    written = socket.bytesWritten
    for (let at = 0; isStart && Buffer.isBuffer(chunk); ) {
      if (!chunk.subarray(at, at + status.length).equals(status)) {
        isStart = false
        break
      }
      chunk[at + status.length - 1] = '2'.charCodeAt(0)
      const end = chunk.indexOf(headEnd, at)
      if (end === -1) break
      at = end + headEnd.length
      if (at === chunk.length) break
    }
    return push(chunk, encoding)
  }
  return socket
}
