import type { RawPath } from '../api-path.ts'
import { startOfCharacter } from '../text-lines.ts'

/** A line that contains the text of a search. */
export type SearchMatch = {
  path: RawPath
  line: number
  /** Where the text is first in the line: a number of bytes, from 1. */
  column: number
  /** The line, or the part of a long one around the match. */
  text: string
  isCut: boolean
  /** Where the match is in `text`, in UTF-16 code units. */
  matchStart: number
  matchLength: number
}

type Options = {
  /** Bytes before each path: the id of the commit and a colon. */
  prefixBytes: number
  /** The number of bytes of the text that is searched for. */
  matchBytes: number
  onMatch: (match: SearchMatch) => void
}

const [nul, lineFeed] = [0, 0x0a]
const pathMaxBytes = 8192
const numberMaxBytes = 20
/** How much of a line is shown besides the match, and how much of that before a match far within the line. */
const contextBytes = 500
const bytesBefore = 100

/**
 * Parses the output of `git grep --null --line-number --column`: `<commit>:<path>`, line, column and text, the first
 * three of which end with a NUL. Keeps a limited part of each line.
 */
export function createSearchParser({ prefixBytes, matchBytes, onMatch }: Options) {
  const shownBytes = contextBytes + matchBytes
  let fields: string[] = []
  let field = ''
  /** The start of the shown part of the line that is read, and the number of its bytes before the present one. */
  let shownFrom = 0
  let at = 0
  let shown: Buffer[] = []

  function take(chunk: Buffer, from: number, to: number, maxBytes: number): void {
    field += chunk.toString('latin1', from, Math.min(to, from + maxBytes - field.length))
  }

  /** Adds bytes of the line to the shown part. */
  function show(chunk: Buffer, from: number, to: number): void {
    const start = Math.max(from, from + shownFrom - at)
    const end = Math.min(to, from + shownFrom + shownBytes - at)
    // A copy, so that a match does not keep the whole chunk in memory.
    if (start < end) shown.push(Buffer.from(chunk.subarray(start, end)))
    at += to - from
  }

  function finish(): void {
    const [path = '', line = '', column = ''] = fields
    const bytes = Buffer.concat(shown)
    const first = shownFrom === 0 ? 0 : startOfText(bytes)
    const isCut = shownFrom > 0 || at > shownFrom + shownBytes
    const last = at > shownFrom + shownBytes ? startOfLastCharacter(bytes) : bytes.length
    const matchAt = Number(column) - 1 - shownFrom
    const matchEnd = Math.min(last, matchAt + matchBytes)
    const before = bytes.toString('utf8', first, matchAt)
    const matched = bytes.toString('utf8', matchAt, matchEnd)
    onMatch({
      path: path.slice(prefixBytes),
      line: Number(line),
      column: Number(column),
      text: before + matched + bytes.toString('utf8', matchEnd, last),
      isCut,
      matchStart: before.length,
      matchLength: matched.length,
    })
    fields = []
    shown = []
    at = 0
  }

  return (chunk: Buffer): void => {
    let from = 0
    while (from < chunk.length) {
      const isText = fields.length === 3
      const end = chunk.indexOf(isText ? lineFeed : nul, from)
      const to = end === -1 ? chunk.length : end
      if (isText) show(chunk, from, to)
      else take(chunk, from, to, fields.length === 0 ? pathMaxBytes : numberMaxBytes)
      if (end === -1) return
      if (isText) finish()
      else {
        fields.push(field)
        field = ''
        if (fields.length === 3) shownFrom = startOfShown(Number(fields[2]) - 1)
      }
      from = end + 1
    }
  }

  function startOfShown(matchAt: number): number {
    return matchAt + matchBytes <= shownBytes ? 0 : Math.max(0, matchAt - bytesBefore)
  }
}

/** The first byte that begins a character of UTF-8. */
function startOfText(bytes: Buffer): number {
  let at = 0
  while (at < Math.min(3, bytes.length) && ((bytes[at] ?? 0) & 0xc0) === 0x80) at++
  return at
}

/** The end of the last whole character, or the start of one that may be incomplete. */
function startOfLastCharacter(bytes: Buffer): number {
  return startOfCharacter(bytes, bytes.length - 1)
}
