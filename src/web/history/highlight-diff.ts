import type { SharedContext } from '../page.ts'
import type { Html } from '../render/html.ts'
import type { DiffHighlights, ShownDiff, ShownFile } from './diff-context.ts'

const maxLength = 256 * 1024
const maxLineLength = 1000
/** Files after this time are shown as text: the next view of the page has more of them. */
const timeoutMs = 120

/** Highlights the changed lines of a diff, as far as that is quick: each side of a file by itself. */
export async function highlightDiff(
  { render, signal, markProvisional }: Pick<SharedContext, 'render' | 'signal' | 'markProvisional'>,
  { files }: ShownDiff,
): Promise<DiffHighlights> {
  const highlights = new Map<ShownFile['hunks'][number], (string | undefined)[]>()
  const end = performance.now() + timeoutMs
  let left = maxLength
  for (const file of files) {
    const length = file.hunks.reduce((sum, { lines }) => sum + lengthOf(lines), 0)
    left -= length
    if (left < 0) break
    if (performance.now() > end || signal().aborted) {
      markProvisional()
      break
    }
    if (length === 0 || file.status === 'type-changed') continue
    const [old, new_] = await Promise.all([
      highlightSide(render, file, '-'),
      highlightSide(render, file, '+'),
    ])
    for (const hunk of file.hunks) {
      const lines = hunk.lines.map((line) =>
        line.startsWith('-') ? old?.shift() : line.startsWith('\\') ? undefined : new_?.shift(),
      )
      highlights.set(hunk, lines)
    }
  }
  return highlights
}

/** The lines of one side; unchanged ones are taken from the new one. */
async function highlightSide(
  render: SharedContext['render'],
  { path, hunks, oldId, newId, truncated }: ShownFile,
  sign: '-' | '+',
): Promise<string[] | undefined> {
  const wanted = hunks.flatMap(({ lines }) =>
    lines.filter((line) => line.startsWith(sign) || line.startsWith(' ')),
  )
  if (!wanted.some((line) => line.startsWith(sign)) && sign === '-') return undefined
  const isHighlighted = wanted.every((line) => line.length <= maxLineLength && !line.endsWith('\r'))
  if (!isHighlighted) return undefined
  const text = wanted.map((line) => `${line.slice(1)}\n`).join('')
  const fileName = path.slice(path.lastIndexOf('/') + 1)
  const key = ['diff', oldId, newId, sign, truncated, text.length, fileName].join('\n')
  const lines = linesIn(await render(key, { kind: 'code', text, fileName }))
  if (lines === undefined || lines.length < wanted.length) return undefined
  // What is open at the end of the text, such as a string, is closed in a further line.
  lines.length = wanted.length
  return sign === '+' ? lines : lines.filter((_, index) => wanted[index]?.startsWith('-'))
}

const lineEnd = '\n</span>'

/** Splits numbered lines, each of which the renderer has as `<span id="L1">…` and a line feed. */
function linesIn(code: Html | undefined): string[] | undefined {
  if (code === undefined) return undefined
  const parts = code.text.split(lineEnd).slice(0, -1)
  return parts.map((part) => {
    const start = part.indexOf('<span id="L')
    return part.slice(part.indexOf('>', start) + 1)
  })
}

function lengthOf(lines: readonly string[]): number {
  return lines.reduce((sum, line) => sum + line.length, 0)
}

/** Highlights a whole file, whose lines are given. */
export async function highlightWhole(
  context: Pick<SharedContext, 'render'>,
  file: ShownFile | undefined,
  lines: readonly string[] | undefined,
): Promise<string[] | undefined> {
  return file && lines && highlightLines(context, `code\n${file.newId}`, file.path, lines)
}

/** Highlights lines of a file; the key names them. Undefined if they are too long or take too long. */
export async function highlightLines(
  { render }: Pick<SharedContext, 'render'>,
  key: string,
  path: string,
  lines: readonly string[],
): Promise<string[] | undefined> {
  if (lengthOf(lines) > maxLength) return undefined
  if (lines.some((line) => line.length > maxLineLength)) return undefined
  const fileName = path.slice(path.lastIndexOf('/') + 1)
  const text = lines.map((line) => `${line}\n`).join('')
  const highlighted = linesIn(await render(`${key}\n${fileName}`, { kind: 'code', text, fileName }))
  return highlighted !== undefined && highlighted.length >= lines.length ? highlighted : undefined
}
