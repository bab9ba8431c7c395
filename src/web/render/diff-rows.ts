import { similarity, toComparedLine } from './line-similarity.ts'

/** The lines of a hunk begin with a space, `+`, `-` or `\`. */
export type HunkLines = {
  oldStart: number
  oldLines: number
  newStart: number
  newLines: number
  lines: readonly string[]
}

export type DiffLine = {
  kind: 'same' | 'added' | 'deleted' | 'note'
  /** Numbers in the old and the new file. */
  old?: number
  new?: number
  text: string
  /** Index of the line in its hunk. */
  index: number
  /** The text as highlighted HTML. */
  highlighted?: string | undefined
  /** The line on the other side that took its place, if it is similar. */
  counterpart?: DiffLine
}

/** A row of two sides: the old line, the new one, or both. A note belongs to the side of the line before it. */
export type SplitRow = { left?: DiffLine; right?: DiffLine }

const maxPairings = 4000
const minSimilarity = 0.3

/** Numbers the lines of a hunk, and pairs deleted lines with the added ones that took their place. */
export function numberLines({ oldStart, newStart, lines }: HunkLines): DiffLine[] {
  let [old, new_] = [oldStart, newStart]
  const all = lines.map((line, index): DiffLine => {
    const text = line.slice(1)
    switch (line[0]) {
      case '+':
        return { kind: 'added', new: new_++, text, index }
      case '-':
        return { kind: 'deleted', old: old++, text, index }
      case '\\':
        return { kind: 'note', text: text.trim(), index }
      default:
        return { kind: 'same', old: old++, new: new_++, text, index }
    }
  })
  for (const { deleted, added } of blocksOf(all)) pairLines(deleted, added)
  return all
}

/** Arranges the lines of a hunk in two columns. Each line is in one row, in order on its side. */
export function toSplitRows(lines: readonly DiffLine[]): SplitRow[] {
  const rows: SplitRow[] = []
  let block: DiffLine[] = []
  const end = () => {
    rows.push(...alignBlock(block))
    block = []
  }
  for (const line of lines) {
    if (line.kind === 'same') {
      end()
      rows.push({ left: line, right: line })
    } else block.push(line)
  }
  end()
  return rows
}

/** How many unchanged lines there are before a hunk, after the one before it. */
export function hiddenBefore(hunk: HunkLines, previous: HunkLines | undefined): number {
  const from = previous === undefined ? 1 : firstOf(previous) + previous.newLines
  return Math.max(0, firstOf(hunk) - from)
}

/** A side without lines has the number of the line before them. */
function firstOf({ newStart, newLines }: HunkLines): number {
  return newLines === 0 ? newStart + 1 : newStart
}

type Block = { deleted: DiffLine[]; added: DiffLine[] }

/** Deleted lines with the added ones that follow them. */
function blocksOf(lines: readonly DiffLine[]): Block[] {
  const blocks: Block[] = []
  let block: Block | undefined
  for (const line of lines) {
    if (line.kind === 'note') continue
    if (line.kind === 'same') block = undefined
    else {
      if (block === undefined || (line.kind === 'deleted' && block.added.length > 0)) {
        block = { deleted: [], added: [] }
        blocks.push(block)
      }
      block[line.kind].push(line)
    }
  }
  return blocks
}

/** Pairs similar lines without crossing, so that the sum of their similarities is the largest. */
function pairLines(deleted: readonly DiffLine[], added: readonly DiffLine[]): void {
  if (deleted.length * added.length > maxPairings) {
    if (deleted.length === added.length)
      for (const [index, line] of deleted.entries()) pair(line, added[index])
    return
  }
  const before = [...deleted.map(({ text }) => toComparedLine(text)).entries()].reverse()
  const after = [...added.map(({ text }) => toComparedLine(text)).entries()].reverse()
  const width = added.length + 1
  const scores = new Float64Array((deleted.length + 1) * width)
  const gains = new Float64Array((deleted.length + 1) * width)
  const at = (row: number, column: number) => scores[row * width + column] ?? 0
  for (const [row, one] of before) {
    for (const [column, other] of after) {
      const likeness = similarity(one, other)
      const gain = likeness < minSimilarity ? 0 : likeness
      gains[row * width + column] = gain
      const both = gain === 0 ? 0 : gain + at(row + 1, column + 1)
      scores[row * width + column] = Math.max(both, at(row + 1, column), at(row, column + 1))
    }
  }
  for (let [row, column] = [0, 0]; row < deleted.length && column < added.length; ) {
    const gain = gains[row * width + column] ?? 0
    if (gain > 0 && gain + at(row + 1, column + 1) >= at(row, column)) {
      const line = deleted[row++]
      if (line) pair(line, added[column++])
    } else if (at(row + 1, column) >= at(row, column + 1)) row++
    else column++
  }
}

function pair(deleted: DiffLine, added: DiffLine | undefined): void {
  if (!added) return
  deleted.counterpart = added
  added.counterpart = deleted
}

/** Rows of changed lines: pairs beside one another, and what is between them from the top. */
function alignBlock(block: readonly DiffLine[]): SplitRow[] {
  const [left, right]: [DiffLine[], DiffLine[]] = [[], []]
  let side = left
  for (const line of block) {
    if (line.kind !== 'note') side = line.kind === 'deleted' ? left : right
    side.push(line)
  }
  const rows: SplitRow[] = []
  let [nextLeft, nextRight] = [0, 0]
  const fill = (leftEnd: number, rightEnd: number) => {
    while (nextLeft < leftEnd || nextRight < rightEnd) {
      const [one, other] = [
        nextLeft < leftEnd ? left[nextLeft++] : undefined,
        nextRight < rightEnd ? right[nextRight++] : undefined,
      ]
      rows.push({ ...(one && { left: one }), ...(other && { right: other }) })
    }
  }
  for (const [index, line] of left.entries()) {
    const counterpart = line.counterpart && right.indexOf(line.counterpart, nextRight)
    if (counterpart === undefined || counterpart === -1) continue
    fill(index, counterpart)
    fill(index + 1, counterpart + 1)
  }
  fill(left.length, right.length)
  return rows
}
