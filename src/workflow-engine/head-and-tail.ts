import { createLineBatches } from './line-batches.ts'
import { createTailBuffer } from './tail-buffer.ts'

type Options = { maxBytes: number; emit: (text: string) => Promise<void> }

/**
 * Tells three quarters of `maxBytes` as they come, keeps the last quarter of what follows, and tells that at the
 * end, after a line that says how much is missing.
 */
export function createHeadAndTail({ maxBytes, emit }: Options) {
  const headMaxBytes = Math.floor((maxBytes * 3) / 4)
  const tailMaxBytes = Math.max(1, maxBytes - headMaxBytes)
  const head = createLineBatches(emit)
  const tail = createTailBuffer(tailMaxBytes)
  let headBytes = 0

  return {
    async push(bytes: Buffer): Promise<void> {
      const fitting = Math.min(bytes.length, headMaxBytes - headBytes)
      if (fitting < bytes.length) tail.write(bytes.subarray(fitting))
      if (fitting === 0) return
      headBytes += fitting
      await head.push(bytes.subarray(0, fitting))
    },
    async end(): Promise<void> {
      const bytes = tail.read()
      const missing = tail.writtenBytes() - bytes.length
      if (missing === 0) {
        await head.push(bytes)
        return head.end()
      }
      await head.end()
      // From the first whole line on, if there is one.
      const lineEnd = bytes.indexOf(0x0a) + 1
      const from = lineEnd < bytes.length ? lineEnd : 0
      await emit(`… ${missing + from} bytes left out …\n`)
      const last = createLineBatches(emit)
      await last.push(bytes.subarray(from))
      await last.end()
    },
  }
}
