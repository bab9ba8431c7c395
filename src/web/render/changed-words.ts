/** A range of UTF-16 code units, without its end. */
export type TextRange = [start: number, end: number]

export type ChangedWords = { before: TextRange[]; after: TextRange[] }

const wordPattern = /[\p{L}\p{N}\p{M}_]+|\s+|[^\p{L}\p{N}\p{M}_\s]/gu
/** Longer lines are compared by their common start and end alone. */
const maxComparedWords = 120
const maxLength = 5000

/**
 * Finds the words that differ between two lines. Undefined when the lines have so little in common that marks would only
 * distract.
 */
export function changedWords(before: string, after: string): ChangedWords | undefined {
  if (before === after || before.length > maxLength || after.length > maxLength) return undefined
  const [old, new_] = [before.match(wordPattern) ?? [], after.match(wordPattern) ?? []]
  let start = 0
  while (start < old.length && start < new_.length && old[start] === new_[start]) start++
  let end = 0
  const most = Math.min(old.length, new_.length) - start
  while (end < most && old[old.length - 1 - end] === new_[new_.length - 1 - end]) end++
  const middle = [old.slice(start, old.length - end), new_.slice(start, new_.length - end)] as const
  const common = commonWords(...middle)
  const same = [
    old.slice(0, start),
    old.slice(old.length - end),
    common.map(([at]) => middle[0][at]),
  ]
  const shared = visibleLength(same.flat().join(''))
  if (shared * 3 < Math.max(visibleLength(before), visibleLength(after))) return undefined
  const offset = old.slice(0, start).join('').length
  return {
    before: differing(middle[0], new Set(common.map(([at]) => at)), offset),
    after: differing(middle[1], new Set(common.map(([, at]) => at)), offset),
  }
}

function visibleLength(text: string): number {
  return text.replace(/\s+/g, '').length
}

/** Pairs of indexes of a longest common subsequence of words; none for long lists. */
function commonWords(old: readonly string[], new_: readonly string[]): [number, number][] {
  if (old.length > maxComparedWords || new_.length > maxComparedWords) return []
  const width = new_.length + 1
  const lengths = new Uint32Array((old.length + 1) * width)
  const at = (row: number, column: number) => lengths[row * width + column] ?? 0
  // Words weigh by their length, so that brackets and spaces do not hold a line together.
  const weightOf = (word: string) => (/^\s/.test(word) ? 1 : word.length * 2)
  for (let row = old.length - 1; row >= 0; row--) {
    for (let column = new_.length - 1; column >= 0; column--) {
      const word = old[row] ?? ''
      const both = word === new_[column] ? at(row + 1, column + 1) + weightOf(word) : 0
      lengths[row * width + column] = Math.max(both, at(row + 1, column), at(row, column + 1))
    }
  }
  const pairs: [number, number][] = []
  for (let [row, column] = [0, 0]; row < old.length && column < new_.length; ) {
    if (
      old[row] === new_[column] &&
      at(row, column) > Math.max(at(row + 1, column), at(row, column + 1))
    )
      pairs.push([row++, column++])
    else if (at(row + 1, column) >= at(row, column + 1)) row++
    else column++
  }
  return pairs
}

/** The ranges of words that are not common; those with only a space between them are one. */
function differing(words: readonly string[], common: ReadonlySet<number>, offset: number) {
  const ranges: TextRange[] = []
  let position = offset
  let gap = ''
  for (const [index, word] of words.entries()) {
    const last = ranges.at(-1)
    if (common.has(index)) gap += word
    else if (last && last[1] + gap.length === position && /^\s*$/.test(gap)) {
      last[1] = position + word.length
      gap = ''
    } else {
      ranges.push([position, position + word.length])
      gap = ''
    }
    position += word.length
  }
  return ranges
}
