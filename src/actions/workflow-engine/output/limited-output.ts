import { isUtf8 } from 'node:buffer'

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

/** The maximum bytes of UTF-8 in a batch, and how long a batch waits for more. */
const batchMaxBytes = 65_535
const batchDelayMs = 100

/**
 * Emits bytes as texts of whole lines, each at most 64 KiB of UTF-8, with U+FFFD for invalid bytes and NUL. Longer
 * lines are split.
 */
function createLineBatches(emit: (text: string) => Promise<void>) {
  let pending: Buffer[] = []
  let pendingBytes = 0
  let hasLine = false
  let timer: NodeJS.Timeout | undefined
  // Serializes the emits of `push`, the timer and `end`.
  let lastEmit = Promise.resolve()

  function flush(isEnd = false): Promise<void> {
    clearTimeout(timer)
    timer = undefined
    const bytes = Buffer.concat(pending)
    const end = isEnd ? bytes.length : endOfLines(bytes)
    const rest = bytes.subarray(end)
    pending = rest.length > 0 ? [rest] : []
    pendingBytes = rest.length
    hasLine = false
    const texts = [...toTexts(bytes.subarray(0, end))]
    if (texts.length === 0) return lastEmit
    lastEmit = lastEmit.then(async () => {
      for (const text of texts) await emit(text)
    })
    return lastEmit
  }

  return {
    async push(bytes: Buffer): Promise<void> {
      pending.push(bytes)
      pendingBytes += bytes.length
      hasLine ||= bytes.includes(0x0a)
      if (pendingBytes >= batchMaxBytes) await flush()
      else if (hasLine) timer ??= setTimeout(() => void flush(), batchDelayMs)
    },
    /** Emits the rest. */
    end: (): Promise<void> => flush(true),
  }
}

// An overlong line is cut between characters.
function endOfLines(bytes: Buffer): number {
  const end = bytes.lastIndexOf(0x0a) + 1
  return end > 0 || bytes.length < batchMaxBytes ? end : cutBefore(bytes, batchMaxBytes)
}

function* toTexts(bytes: Buffer): Generator<string> {
  let from = 0
  while (from < bytes.length) {
    let to = Math.min(bytes.length, from + batchMaxBytes)
    if (to < bytes.length) {
      const lineEnd = bytes.lastIndexOf(0x0a, to - 1) + 1
      to = lineEnd > from ? lineEnd : cutBefore(bytes, to, from)
    }
    yield* toPieces(bytes.subarray(from, to))
    from = to
  }
}

// U+FFFD is longer than the bytes it replaces, so a text may need splitting. Each piece ends with a line feed.
function* toPieces(bytes: Buffer): Generator<string> {
  const text = bytes.toString().replaceAll('\0', '\u{fffd}')
  const isValid = isUtf8(bytes) && !bytes.includes(0)
  if (isValid || Buffer.byteLength(text) <= batchMaxBytes) {
    yield text.endsWith('\n') ? text : `${text}\n`
    return
  }
  const middle =
    bytes.lastIndexOf(0x0a, bytes.length / 2) + 1 || cutBefore(bytes, bytes.length >> 1)
  yield* toPieces(bytes.subarray(0, middle))
  yield* toPieces(bytes.subarray(middle))
}

function cutBefore(bytes: Buffer, at: number, minCut = 0): number {
  for (let cut = at; cut > at - 4 && cut > minCut + 1; cut--) {
    if (((bytes[cut] ?? 0) & 0xc0) !== 0x80) return cut
  }
  return at
}

/** A ring buffer of the last `maxBytes` written to it. */
export function createTailBuffer(maxBytes: number) {
  let ring: Buffer | undefined
  let written = 0

  return {
    write(bytes: Buffer): void {
      ring ??= Buffer.alloc(maxBytes)
      const last = bytes.subarray(Math.max(0, bytes.length - maxBytes))
      written += bytes.length - last.length
      const at = written % maxBytes
      const copied = last.copy(ring, at)
      last.copy(ring, 0, copied)
      written += last.length
    },
    /** The total number of bytes written. */
    writtenBytes: () => written,
    read(): Buffer {
      if (!ring) return Buffer.alloc(0)
      if (written <= maxBytes) return ring.subarray(0, written)
      const at = written % maxBytes
      return Buffer.concat([ring.subarray(at), ring.subarray(0, at)])
    },
  }
}
