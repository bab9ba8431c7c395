/** What lines are compared by, prepared once for each. */
export type ComparedLine = { text: string; words: ReadonlyMap<string, number>; length: number }

const wordPattern = /[\p{L}\p{N}\p{M}_]+/gu
/** Longer lines are compared by their common start and end alone. */
const maxLength = 2000

export function toComparedLine(line: string): ComparedLine {
  const text = line.trim()
  const words = new Map<string, number>()
  let length = 0
  for (const [word] of text.length > maxLength ? [] : text.matchAll(wordPattern)) {
    words.set(word, (words.get(word) ?? 0) + 1)
    length += word.length
  }
  return { text, words, length }
}

/**
 * How similar two lines are, from 0 to 1: by their common start and end, or by their common words, since what moves within
 * a line leaves neither its start nor its end.
 */
export function similarity(one: ComparedLine, other: ComparedLine): number {
  return Math.max(commonEnds(one.text, other.text), commonWords(one, other))
}

function commonEnds(one: string, other: string): number {
  const longest = Math.max(one.length, other.length)
  if (longest === 0) return 1
  const most = Math.min(one.length, other.length)
  let start = 0
  while (start < most && one[start] === other[start]) start++
  let end = 0
  while (end < most - start && one[one.length - 1 - end] === other[other.length - 1 - end]) end++
  return (start + end) / longest
}

function commonWords(one: ComparedLine, other: ComparedLine): number {
  let common = 0
  for (const [word, count] of one.words)
    common += word.length * Math.min(count, other.words.get(word) ?? 0)
  return common === 0 ? 0 : common / Math.max(one.length, other.length)
}
