import { isUtf8 } from 'node:buffer'

/** Bytes of UTF-8 that are told at a time, and how long the first of them waits for more. */
const batchMaxBytes = 65_535
const batchAfterMs = 100

/**
 * Tells bytes as texts of whole lines: each at most 64 KiB of UTF-8, with U+FFFD for what is none and for NUL. A
 * line that is longer is cut into several.
 */
export function createLineBatches(emit: (text: string) => Promise<void>) {
  let waiting: Buffer[] = []
  let waitingBytes = 0
  let hasLine = false
  let timer: NodeJS.Timeout | undefined
  // Tellings follow each other, whoever began them.
  let told = Promise.resolve()

  function flush(isEnd = false): Promise<void> {
    clearTimeout(timer)
    timer = undefined
    const bytes = Buffer.concat(waiting)
    const end = isEnd ? bytes.length : endOfLines(bytes)
    const rest = bytes.subarray(end)
    waiting = rest.length > 0 ? [rest] : []
    waitingBytes = rest.length
    hasLine = false
    const texts = [...toTexts(bytes.subarray(0, end))]
    if (texts.length === 0) return told
    told = told.then(async () => {
      for (const text of texts) await emit(text)
    })
    return told
  }

  return {
    async push(bytes: Buffer): Promise<void> {
      waiting.push(bytes)
      waitingBytes += bytes.length
      hasLine ||= bytes.includes(0x0a)
      if (waitingBytes >= batchMaxBytes) await flush()
      else if (hasLine) timer ??= setTimeout(() => void flush(), batchAfterMs)
    },
    /** Tells the rest. */
    end: (): Promise<void> => flush(true),
  }
}

// Where there is no line end for too long, it is cut where it is no character's middle.
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

// Replacements are longer than what they replace. What was cut within a line, or is the last one, gets its end.
function* toPieces(bytes: Buffer): Generator<string> {
  const text = bytes.toString().replaceAll('\0', '\u{fffd}')
  const isFine = isUtf8(bytes) && !bytes.includes(0)
  if (isFine || Buffer.byteLength(text) <= batchMaxBytes) {
    yield text.endsWith('\n') ? text : `${text}\n`
    return
  }
  const middle =
    bytes.lastIndexOf(0x0a, bytes.length / 2) + 1 || cutBefore(bytes, bytes.length >> 1)
  yield* toPieces(bytes.subarray(0, middle))
  yield* toPieces(bytes.subarray(middle))
}

function cutBefore(bytes: Buffer, at: number, least = 0): number {
  for (let cut = at; cut > at - 4 && cut > least + 1; cut--) {
    if (((bytes[cut] ?? 0) & 0xc0) !== 0x80) return cut
  }
  return at
}
