import { watchDrain } from '../git/chunks.ts'
import type { GitRequest, Outcome } from './git-request.ts'
import { watchRequest } from './talk.ts'

// A client that reads slowly has no more than this encrypted or copied for it.
const writtenAtOnce = 1024 * 1024

/** Answers with bytes that are at hand. */
export async function say(
  request: GitRequest,
  pieces: readonly Buffer[],
  stallMs: number,
): Promise<Outcome> {
  const { answer } = request
  const { output } = answer
  answer.begin()
  // All of a short answer goes out together.
  output.cork()
  process.nextTick(() => output.uncork())
  for (const piece of pieces) {
    for (let at = 0; at < piece.length; at += writtenAtOnce) {
      if (output.write(piece.subarray(at, at + writtenAtOnce))) continue
      using watched = watchRequest(request, stallMs)
      using draining = watchDrain(output, watched.signal)
      await draining.wait()
      watched.signal.throwIfAborted()
    }
  }
  return 0
}
