import type { RawPath } from '../api-path.ts'
import { createLineSplitter } from '../line-splitter.ts'

/** Lines that one commit added, or changed to what they are, one after another. Lines are counted from 1. */
export type BlameRange = {
  start: number
  count: number
  commit: string
  originalPath: RawPath
  originalStart: number
  /** The file before that commit, if it had one. */
  previous?: { commit: string; path: RawPath }
}

// A path has at most 4096 bytes, each of which may be quoted as four.
const lineMaxLength = 20_000

/** Parses the output of `git blame --incremental`, and calls back with each range, in any order. */
export function createBlameParser(onRange: (range: BlameRange) => void): (chunk: Buffer) => void {
  const split = createLineSplitter(lineMaxLength)
  let range: BlameRange | undefined

  function parse(line: string): void {
    const [, commit, originalStart, start, count] =
      /^([0-9a-f]{40,64}) (\d+) (\d+) (\d+)$/.exec(line) ?? []
    if (commit !== undefined) {
      range = {
        start: Number(start),
        count: Number(count),
        commit,
        originalPath: '',
        originalStart: Number(originalStart),
      }
    } else if (range && line.startsWith('previous ')) {
      const [, id = '', path = ''] = /^previous ([0-9a-f]{40,64}) (.*)$/s.exec(line) ?? []
      range.previous = { commit: id, path: unquotePath(path) }
    } else if (range && line.startsWith('filename ')) {
      range.originalPath = unquotePath(line.slice('filename '.length))
      onRange(range)
      range = undefined
    }
  }

  return (chunk) => {
    for (const line of split(chunk)) parse(line)
  }
}

/** Sorts ranges by line, and joins those that continue one another, as git does except with `--incremental`. */
export function joinRanges(ranges: readonly BlameRange[]): BlameRange[] {
  const joined: BlameRange[] = []
  for (const range of ranges.toSorted((one, other) => one.start - other.start)) {
    const last = joined.at(-1)
    const isContinued =
      last?.commit === range.commit &&
      last.originalPath === range.originalPath &&
      last.originalStart + last.count === range.originalStart &&
      last.start + last.count === range.start
    if (isContinued) last.count += range.count
    else joined.push({ ...range })
  }
  return joined
}

/** Reads a path as git prints it without `-z`: in quotes, with escapes as in C, if it has unusual characters. */
function unquotePath(printed: string): RawPath {
  if (!printed.startsWith('"')) return printed
  return printed
    .slice(1, -1)
    .replace(/\\([0-7]{3}|.)/gs, (_, code: string) =>
      code.length === 3 ? String.fromCharCode(Number.parseInt(code, 8)) : (escapes[code] ?? code),
    )
}

const escapes: Record<string, string> = {
  a: '\x07',
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
  v: '\v',
}
