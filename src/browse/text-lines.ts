import { setImmediate as nextTurn } from 'node:timers/promises'

const lineFeed = 0x0a
const linesPerTurn = 50_000

/** Some lines of a text: where each starts, and where the last one ends. The line feeds belong to the lines. */
export type LineRange = { starts: number[]; end: number; totalLines: number }

type Wanted = {
  /** The first line, counted from 1, and how many are wanted at most. */
  start: number
  maxLines: number
  /** The lines end when they have more bytes than this, but there is one at least. */
  maxBytes: number
}

/** Finds lines of a text, and counts all, without occupying the thread for long. */
export async function findLines(
  bytes: Buffer,
  { start, maxLines, maxBytes }: Wanted,
): Promise<LineRange> {
  const starts: number[] = []
  let end = 0
  let isFull = false
  let totalLines = 0
  for (let at = 0; at < bytes.length; ) {
    const feed = bytes.indexOf(lineFeed, at)
    const next = feed === -1 ? bytes.length : feed + 1
    totalLines += 1
    if (totalLines >= start && !isFull) {
      const first = starts[0] ?? at
      isFull = starts.length === maxLines || (starts.length > 0 && next - first > maxBytes)
      if (!isFull) {
        starts.push(at)
        end = next
      }
    }
    at = next
    if (totalLines % linesPerTurn === 0) await nextTurn()
  }
  return { starts, end, totalLines }
}

/** Decodes UTF-8 of at most some bytes; cut between characters. */
export function decodeUpTo(bytes: Buffer, maxBytes: number): { text: string; isCut: boolean } {
  if (bytes.length <= maxBytes) return { text: bytes.toString('utf8'), isCut: false }
  return { text: bytes.toString('utf8', 0, startOfCharacter(bytes, maxBytes)), isCut: true }
}

/** The start of the character of UTF-8 that has the byte at a position. */
export function startOfCharacter(bytes: Buffer, at: number): number {
  for (let position = at; position > Math.max(0, at - 4); position--) {
    if (((bytes[position] ?? 0) & 0xc0) !== 0x80) return position
  }
  return at
}
