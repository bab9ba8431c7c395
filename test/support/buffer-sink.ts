import { Writable } from 'node:stream'
import { finished } from 'node:stream/promises'
import type { ResponseSink } from '#git/protocol/pipe-process.ts'
import type { createRandom } from './random.ts'

/** Collects a response; with `random`, at an uneven speed. */
export function createBufferSink(
  random?: ReturnType<typeof createRandom>,
): ResponseSink & { bytes: () => Promise<Buffer> } {
  const pieces: Buffer[] = []
  const output = new Writable({
    write(bytes: Buffer, _encoding, done) {
      // Copied: the writer reuses its buffers.
      pieces.push(Buffer.from(bytes))
      if (random?.chance(0.3)) setImmediate(done)
      else done()
    },
  })
  return {
    output,
    signal: new AbortController().signal,
    onBegin() {},
    onProgress() {},
    async bytes() {
      await finished(output.end())
      return Buffer.concat(pieces)
    },
  }
}
