/** Consumes the parts of a stream that end with a delimiter. */
export type PartConsumer = {
  /** The byte that ends the next part. */
  delimiter: () => number
  /** How many bytes of the next part are kept when it arrives in several chunks; the others are dropped. */
  maxKept: () => number
  /** Called with a part, from `start` to `end` of the bytes, which are valid during the call. */
  onPart: (bytes: Buffer, start: number, end: number) => void
}

const nearBytes = 64

/** Splits a stream into parts. Time is linear, and memory bounded, however the stream is divided into chunks. */
export function createPartScanner(consumer: PartConsumer): {
  push: (chunk: Buffer) => void
  isBetweenParts: () => boolean
} {
  let pieces: Buffer[] = []
  let keptBytes = 0
  let isWithin = false

  function keep(piece: Buffer): void {
    isWithin = true
    const kept = piece.subarray(0, Math.max(0, consumer.maxKept() - keptBytes))
    if (kept.length === 0) return
    pieces.push(kept)
    keptBytes += kept.length
  }

  function finish(): void {
    const whole = Buffer.concat(pieces, keptBytes)
    pieces = []
    keptBytes = 0
    isWithin = false
    consumer.onPart(whole, 0, whole.length)
  }

  return {
    push(chunk) {
      for (let at = 0; at < chunk.length; ) {
        const end = indexOf(chunk, consumer.delimiter(), at)
        if (end === -1) {
          keep(chunk.subarray(at))
          return
        }
        if (isWithin) {
          keep(chunk.subarray(at, end))
          finish()
        } else consumer.onPart(chunk, at, end)
        at = end + 1
      }
    },

    isBetweenParts: () => !isWithin,
  }
}

/** Like `Buffer.indexOf`, whose call costs more than reading a short line. */
function indexOf(bytes: Buffer, wanted: number, from: number): number {
  const near = Math.min(bytes.length, from + nearBytes)
  for (let at = from; at < near; at++) if (bytes[at] === wanted) return at
  return near === bytes.length ? -1 : bytes.indexOf(wanted, near)
}
