import { counted, grouped } from '../display-text.ts'
import { type ChangedWords, changedWords } from '../render/changed-words.ts'
import { type DiffLine, hiddenBefore, numberLines, toSplitRows } from '../render/diff-rows.ts'
import { type Html, html } from '../render/html.ts'
import { markedText, markHtml } from '../render/mark-html.ts'
import { annotationRows } from './annotation-view.ts'
import { type DiffContext, fileQuery, type ShownFile } from './diff-context.ts'

/** The rows of the hunks of a file, with what is folded between them. */
export function hunkRows(
  file: ShownFile,
  id: string,
  context: DiffContext,
  maxLines: number,
): Html[] {
  const { isSplit, wholeFile } = context
  const ofFile = context.annotations.get(file.path)
  const columns = isSplit ? 4 : 3
  /** Lines that are on both sides get comments on the new one. */
  const linkTo: LinkTo = ({ old, new: number }) => {
    const [side, of] = number === undefined ? (['old', old] as const) : (['new', number] as const)
    return of === undefined ? undefined : context.review?.commentLink(file, { side, number: of })
  }
  const canExpand =
    file.newId !== null && file.status !== 'type-changed' && file.status !== 'deleted'
  const rows: Html[] = []
  let left = maxLines
  let previous: ShownFile['hunks'][number] | undefined
  for (const hunk of file.hunks) {
    const hidden = hiddenBefore(hunk, previous)
    rows.push(...between(hunk, hidden))
    const lines = numberLines(hunk).slice(0, Math.max(0, left))
    const highlighted = context.highlights.get(hunk)
    for (const line of lines) line.highlighted = highlighted?.[line.index]
    const cut = new Set(hunk.cutLines)
    left -= hunk.lines.length
    rows.push(
      ...(isSplit
        ? toSplitRows(lines).flatMap((row) => [
            splitRow(row, { id, cut, linkTo }),
            ...below({ old: row.left?.old, new: row.right?.new }),
          ])
        : lines.flatMap((line) => [unifiedRow(line, { id, cut, linkTo }), ...below(line)])),
    )
    previous = hunk
    if (left < 0) {
      rows.push(noteRow(`The page ends after ${grouped(maxLines)} lines.`))
      return rows
    }
  }
  if (!previous) return rows
  const end = endOf(previous)
  if (wholeFile) rows.push(...unchanged(wholeFile, end, wholeFile.length))
  else if (canExpand && file.truncated === null && mayGoOn(previous))
    rows.push(foldRow('Rest of the file', end.new))
  return rows

  function between(hunk: ShownFile['hunks'][number], hidden: number): Html[] {
    if (hidden === 0) return []
    const first = hunk.newStart - hidden + (hunk.newLines === 0 ? 1 : 0)
    if (wholeFile)
      return unchanged(wholeFile, { new: first, old: first - shiftOf(hunk) }, first + hidden - 1)
    return [foldRow(counted(hidden, 'unchanged line'), hunk.newStart, hunk.section)]
  }

  function unchanged(
    lines: readonly string[],
    from: { old: number; new: number },
    last: number,
  ): Html[] {
    const shown: Html[] = []
    for (let number = from.new; number <= last; number++) {
      const line: DiffLine = {
        kind: 'same',
        old: from.old + number - from.new,
        new: number,
        text: lines[number - 1] ?? '',
        index: -1,
        highlighted: context.wholeHighlights?.[number - 1],
      }
      shown.push(
        isSplit
          ? splitRow({ left: line, right: line }, { id, cut: none, linkTo })
          : unifiedRow(line, { id, cut: none, linkTo }),
        ...below(line),
      )
    }
    return shown
  }

  /** What is said of a line, below it. */
  function below(line: LineNumbers): Html[] {
    const found = line.new === undefined ? undefined : ofFile?.get(line.new)
    return [
      ...(found ? annotationRows(found, columns) : []),
      ...(context.review?.below(file, line) ?? []).map(
        (content) => html`<tr class="said"><td colspan="${columns}">${content}`,
      ),
    ]
  }

  function foldRow(text: string, line: number, section = ''): Html {
    const href = `${context.here({ ...fileQuery(file), lines: 'all' })}#f1R${line}`
    return html`<tr class="fold"><td colspan="${columns}">${
      canExpand ? html`<a href="${href}" title="Show them">↕ ${text}</a>` : text
    }${section !== '' && html` <span class="mono">${section}</span>`}`
  }

  function noteRow(text: string): Html {
    return html`<tr class="fold"><td colspan="${columns}">${text}`
  }
}

const none: ReadonlySet<number> = new Set()

function shiftOf({ newStart, newLines, oldStart, oldLines }: ShownFile['hunks'][number]): number {
  return newStart + (newLines === 0 ? 1 : 0) - (oldStart + (oldLines === 0 ? 1 : 0))
}

/** The lines after a hunk. */
function endOf(hunk: ShownFile['hunks'][number]) {
  const first = hunk.newStart + (hunk.newLines === 0 ? 1 : 0)
  const next = first + hunk.newLines
  return { new: next, old: first - shiftOf(hunk) + hunk.oldLines }
}

// The default of git diff.
const contextLines = 3

/** Whether unchanged lines may follow a hunk: it has all lines of context after its last change. */
function mayGoOn({ lines }: ShownFile['hunks'][number]): boolean {
  const context = lines.slice(-contextLines)
  return context.length === contextLines && context.every((line) => line.startsWith(' '))
}

const classes = { same: '', added: 'add', deleted: 'del', note: 'note' } as const

// Cells and rows end where the next one begins: HTML, section 13.1.2.4.

type LineNumbers = { old?: number | undefined; new?: number | undefined }

type LinkTo = (line: LineNumbers) => Html | undefined

/** What the rows of a file have in common. */
type RowParts = { id: string; cut: ReadonlySet<number>; linkTo: LinkTo }

function unifiedRow(line: DiffLine, { id, cut, linkTo }: RowParts): Html {
  const { kind, old, new: number } = line
  if (kind === 'note') return html`<tr class="note"><td class="no"><td class="no"><td>${line.text}`
  const anchor = number === undefined ? `${id}L${old}` : `${id}R${number}`
  const name = classes[kind]
  const link = linkTo(line)
  const [ofOld, ofNew] = number === undefined ? [link] : [undefined, link]
  return html`<tr id="${anchor}"${name !== '' && html` class="${name}"`}><td${numberAttribute(old)}>${ofOld}<td${numberAttribute(number)}>${ofNew}<td>${lineText(line, cut)}`
}

function splitRow(
  { left, right }: { left?: DiffLine; right?: DiffLine },
  { id, cut, linkTo }: RowParts,
): Html {
  const anchor =
    right?.new !== undefined ? `${id}R${right.new}` : left?.old !== undefined && `${id}L${left.old}`
  const link = left?.kind === 'deleted' ? linkTo({ old: left.old }) : undefined
  const sides = html`${side(left, { number: left?.old, cut, link })}${side(right, { number: right?.new, cut, link: right && linkTo({ new: right.new }) })}`
  return html`<tr${anchor && html` id="${anchor}"`}>${sides}`
}

function side(
  line: DiffLine | undefined,
  {
    number,
    cut,
    link,
  }: { number: number | undefined; cut: ReadonlySet<number>; link: Html | undefined },
): Html {
  if (!line) return html`<td class="gap"><td class="gap">`
  const name = classes[line.kind]
  const attribute = name !== '' && html` class="${name}"`
  const numbers =
    number === undefined ? html` class="no ${name}"` : html` data-n="${number}"${attribute}`
  return html`<td${numbers}>${link}<td${attribute}>${line.kind === 'note' ? line.text : lineText(line, cut)}`
}

function numberAttribute(number: number | undefined): Html {
  return number === undefined ? html` class="no"` : html` data-n="${number}"`
}

const wordsOf = new WeakMap<DiffLine, ChangedWords | null>()

function lineText(line: DiffLine, cut: ReadonlySet<number>): Html {
  const text = line.kind === 'same' ? line.text.replace(/\r$/, '') : line.text
  const end = cut.has(line.index) && html`<span class="unseen">cut</span>`
  const words = line.counterpart && changesBetween(line, line.counterpart)
  const [ranges, element] =
    line.kind === 'deleted' ? [words?.before ?? [], 'del'] : [words?.after ?? [], 'ins']
  const { highlighted } = line
  return html`${
    highlighted === undefined
      ? markedText(text, ranges, element)
      : markHtml(highlighted, ranges, element)
  }${end}`
}

/** Compares two lines once for both. */
function changesBetween(line: DiffLine, other: DiffLine): ChangedWords | null {
  const [deleted, added] = line.kind === 'deleted' ? [line, other] : [other, line]
  const known = wordsOf.get(deleted)
  if (known !== undefined) return known
  const words = changedWords(deleted.text, added.text) ?? null
  wordsOf.set(deleted, words)
  return words
}
