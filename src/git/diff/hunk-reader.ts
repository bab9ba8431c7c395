import { isUtf8 } from 'node:buffer'
import type { DiffFile, DiffHunk, DiffLimit, DiffLimits } from './parsed-diff.ts'

/** Reads the hunks of one patch after the other, stores their lines within limits, and counts all. */
export type HunkReader = {
  /** The next hunks are of this file; undefined for one that is only counted. */
  enter: (file: DiffFile | undefined) => void
  begin: (bytes: Buffer, start: number, end: number) => void
  addLine: (bytes: Buffer, start: number, end: number) => void
  markBinary: () => void
  /** Whether lines of the current hunk are to come. */
  isOpen: () => boolean
  /** How many bytes of a line are of use. */
  maxKept: () => number
  totals: () => { additions: number; deletions: number }
}

/** What a file has stored. */
type Usage = { lines: number; bytes: number }

const [plus, minus, backslash] = [0x2b, 0x2d, 0x5c]
const hunkHeaderMaxBytes = 1024
/** A few more bytes than the limit, since characters are not cut in two. */
const cutMargin = 4

export function createHunkReader(limits: DiffLimits, reached: Set<DiffLimit>): HunkReader {
  const { maxLinesPerFile, maxBytesPerFile, maxLineBytes, maxBytes } = limits
  const total = { additions: 0, deletions: 0 }
  let file: DiffFile | undefined
  let hunk: DiffHunk | undefined
  let usage: Usage = { lines: 0, bytes: 0 }
  let storedBytes = 0
  let oldLeft = 0
  let newLeft = 0

  function count(first: number | undefined): void {
    if (first === backslash) return
    if (first !== plus) oldLeft -= 1
    if (first !== minus) newLeft -= 1
    if (first === plus) total.additions += 1
    if (first === minus) total.deletions += 1
    if (!file) return
    if (first === plus) file.additions = (file.additions ?? 0) + 1
    if (first === minus) file.deletions = (file.deletions ?? 0) + 1
  }

  /** The limit that a file reaches with a line of a number of bytes. */
  function limitWith(bytes: number): DiffLimit | undefined {
    if (usage.lines >= maxLinesPerFile) return 'lines'
    if (usage.bytes + bytes > maxBytesPerFile) return 'bytes'
    return storedBytes + bytes > maxBytes ? 'response' : undefined
  }

  function store(target: DiffHunk, bytes: Buffer): void {
    const isCut = bytes.length > maxLineBytes
    const kept = isCut ? bytes.subarray(0, wholeCharacters(bytes, maxLineBytes)) : bytes
    const text = kept.toString('utf8')
    const isRaw = !isUtf8(kept)
    const inBase64 = isRaw ? Math.ceil(kept.length / 3) * 4 + base64Overhead : 0
    const size = Buffer.byteLength(JSON.stringify(text)) + 1 + inBase64
    const limit = limitWith(size)
    if (limit) {
      stop(limit)
      return
    }
    usage.lines += 1
    usage.bytes += size
    storedBytes += size
    const index = target.lines.push(text) - 1
    if (isCut) {
      target.cutLines.push(index)
      reached.add('line')
      if (file) file.truncated ??= 'line'
    }
    if (isRaw) target.rawLines.push({ index, bytes: Buffer.from(kept) })
  }

  function stop(limit: DiffLimit): void {
    reached.add(limit)
    if (file) file.truncated = limit
    hunk = undefined
  }

  const isStored = () => file !== undefined && (file.truncated ?? 'line') === 'line'

  return {
    enter(next) {
      const isSame = next !== undefined && next === file
      file = next
      hunk = undefined
      if (!isSame) usage = { lines: 0, bytes: 0 }
      if (!file) return
      file.additions ??= 0
      file.deletions ??= 0
    },

    begin(bytes, start, end) {
      const header = bytes.toString('utf8', start, Math.min(end, start + hunkHeaderMaxBytes))
      const found = toHunk(header)
      oldLeft = found.oldLines
      newLeft = found.newLines
      hunk = undefined
      if (!file || !isStored()) return
      const size = hunkOverhead + found.section.length * 3
      const limit = limitWith(size)
      if (limit) {
        stop(limit)
        return
      }
      usage.bytes += size
      storedBytes += size
      file.hunks.push(found)
      hunk = found
    },

    addLine(bytes, start, end) {
      count(bytes[start])
      if (hunk && isStored()) store(hunk, bytes.subarray(start, end))
    },

    markBinary() {
      if (file) file.isBinary = true
    },

    isOpen: () => oldLeft > 0 || newLeft > 0,
    maxKept: () => (hunk ? maxLineBytes + cutMargin : 1),
    totals: () => total,
  }
}

/** Approximate size of the other members of a hunk, and of a line in base64, as JSON. */
const hunkOverhead = 120
const base64Overhead = 40

function toHunk(header: string): DiffHunk {
  const [, oldStart, oldLines = 1, newStart, newLines = 1, section = ''] =
    /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?(.*)$/s.exec(header) ?? []
  if (oldStart === undefined) throw new Error('git diff-tree printed a hunk of another format')
  return {
    oldStart: Number(oldStart),
    oldLines: Number(oldLines),
    newStart: Number(newStart),
    newLines: Number(newLines),
    section,
    lines: [],
    cutLines: [],
    rawLines: [],
  }
}

/** The largest length up to `max` that does not end within a character of UTF-8. */
function wholeCharacters(bytes: Buffer, max: number): number {
  let end = max
  // Continuation bytes; there are at most three.
  while (end > max - 3 && ((bytes[end] ?? 0) & 0xc0) === 0x80) end--
  return ((bytes[end] ?? 0) & 0xc0) === 0x80 ? max : end
}
