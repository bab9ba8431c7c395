import { watchDrain } from '../../git/process/chunks.ts'
import type { GitRequest, RequestOutcome } from './git-request.ts'
import { type WatchedRequest, watchRequest } from './respond.ts'

// A client that reads slowly has no more than this encrypted or copied for it.
const writtenAtOnce = 1024 * 1024
// No client is so slow that this is too much to wait for it.
const shortMaxBytes = 64 * 1024

/** Answers with bytes that are at hand. */
export async function respondWithBytes(
  request: GitRequest | WatchedRequest,
  pieces: readonly Buffer[],
  stallMs: number,
): Promise<RequestOutcome> {
  const { answer } = request
  const { output } = answer
  const size = pieces.reduce((sum, { length }) => sum + length, 0)
  if (size <= shortMaxBytes) {
    const [first = Buffer.alloc(0), ...more] = pieces
    answer.respondWithBytes(more.length === 0 ? first : Buffer.concat(pieces, size))
    return 0
  }
  answer.begin(size)
  for (const piece of pieces) {
    for (let at = 0; at < piece.length; at += writtenAtOnce) {
      if (output.write(piece.subarray(at, at + writtenAtOnce))) continue
      using watched = watchRequest(request, stallMs)
      using draining = watchDrain(output, watched.signal)
      await draining.wait()
      watched.onProgress()
      watched.signal.throwIfAborted()
    }
  }
  return 0
}
