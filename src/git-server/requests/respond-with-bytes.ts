import { watchDrain } from '../../git/process/chunks.ts'
import type { GitRequest, RequestOutcome } from './git-request.ts'
import { type WatchedRequest, watchRequest } from './respond.ts'

// Bounds the bytes that are encrypted or copied ahead of a slow client.
const maxWriteBytes = 1024 * 1024
// Small enough to send without waiting for the client to read.
const shortMaxBytes = 64 * 1024

/** Responds with bytes that are in memory. */
export async function respondWithBytes(
  request: GitRequest | WatchedRequest,
  pieces: readonly Buffer[],
  stallMs: number,
): Promise<RequestOutcome> {
  const { response } = request
  const { output } = response
  const size = pieces.reduce((sum, { length }) => sum + length, 0)
  if (size <= shortMaxBytes) {
    const [first = Buffer.alloc(0), ...more] = pieces
    response.respondWithBytes(more.length === 0 ? first : Buffer.concat(pieces, size))
    return 0
  }
  response.begin(size)
  for (const piece of pieces) {
    for (let at = 0; at < piece.length; at += maxWriteBytes) {
      if (output.write(piece.subarray(at, at + maxWriteBytes))) continue
      using watched = watchRequest(request, stallMs)
      using draining = watchDrain(output, watched.signal)
      await draining.wait()
      watched.onProgress()
      watched.signal.throwIfAborted()
    }
  }
  return 0
}
