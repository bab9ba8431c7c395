import { createLineBatches } from './line-batches.ts'
import { createTailBuffer } from './tail-buffer.ts'

type Options = { maxBytes: number; emit: (text: string) => Promise<void> }

/**
 * Limits an output to `maxBytes`: emits the first three quarters of it at once, buffers the last quarter, and emits
 * that at the end, after a line with the number of omitted bytes.
 */
export function createHeadAndTail({ maxBytes, emit }: Options) {
  const headMaxBytes = Math.floor((maxBytes * 3) / 4)
  const tailMaxBytes = Math.max(1, maxBytes - headMaxBytes)
  const head = createLineBatches(emit)
  const tail = createTailBuffer(tailMaxBytes)
  let headBytes = 0

  return {
    async push(bytes: Buffer): Promise<void> {
      const headLength = Math.min(bytes.length, headMaxBytes - headBytes)
      if (headLength < bytes.length) tail.write(bytes.subarray(headLength))
      if (headLength === 0) return
      headBytes += headLength
      await head.push(bytes.subarray(0, headLength))
    },
    async end(): Promise<void> {
      const bytes = tail.read()
      const missing = tail.writtenBytes() - bytes.length
      if (missing === 0) {
        await head.push(bytes)
        return head.end()
      }
      await head.end()
      // Starts at the first whole line, if there is one.
      const lineEnd = bytes.indexOf(0x0a) + 1
      const from = lineEnd < bytes.length ? lineEnd : 0
      await emit(`… ${missing + from} bytes omitted …\n`)
      const last = createLineBatches(emit)
      await last.push(bytes.subarray(from))
      await last.end()
    },
  }
}
