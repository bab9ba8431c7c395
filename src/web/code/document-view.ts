import { grouped } from '../display-text.ts'
import type { SharedContext } from '../page.ts'
import type { DocumentPlace } from '../render/document-links.ts'
import { hasMoreRuns, maxRunsOfFile } from '../render/hidden-characters.ts'
import { type Html, html, trusted } from '../render/html.ts'
import { renderPlainText } from '../render/numbered-lines.ts'
import type { TextFile } from './code-target.ts'

const shownMaxLines = 20_000
const renderedMaxBytes = 512 * 1024
const highlightedMaxLines = 10_000
const highlightedMaxLineLength = 1000

/** Whether a file is a document in Markdown, by its name. */
export function isMarkdown(name: string): boolean {
  return /\.(md|markdown)$/i.test(name)
}

type DocumentKind = 'markdown' | 'table' | 'notebook'

/** How a file is shown as people read it, by its name; undefined for one that is code or text. */
export function documentKind(name: string): DocumentKind | undefined {
  if (isMarkdown(name)) return 'markdown'
  if (/\.[ct]sv$/i.test(name)) return 'table'
  return /\.ipynb$/i.test(name) ? 'notebook' : undefined
}

/** Where the links of a document lead. */
export function documentPlace(
  { to }: Pick<SharedContext, 'to'>,
  name: string,
  rev: string,
  folder: string,
): DocumentPlace {
  return { src: to.src(name, rev), raw: to.raw(name, rev), folder }
}

type ShownDocument = { kind: DocumentKind; place: DocumentPlace; fileName: string }

/** A document as people read it; undefined if it is too large or took too long. */
export async function renderDocument(
  { render }: SharedContext,
  { id, content: text, size }: TextFile,
  { kind, place, fileName }: ShownDocument,
): Promise<Html | undefined> {
  // Most of a large notebook are pictures, which are left out.
  if (size > renderedMaxBytes && kind !== 'notebook') return undefined
  const rendered =
    kind === 'table'
      ? await render([kind, id, fileName].join('\n'), { kind, text, fileName })
      : await render([kind, id, place.src, place.folder].join('\n'), { kind, text, place })
  return rendered && html`${hiddenNote(text)}<div class="prose">${rendered}</div>`
}

/** The text of a file as numbered lines, highlighted if that is quick. Undefined if there are too many, or they are too long. */
export async function renderLines(
  { render }: SharedContext,
  { id, content: text, size }: Omit<TextFile, 'encoding'>,
  fileName: string,
): Promise<Html | undefined> {
  const { lines, longest } = measure(text)
  if (lines > shownMaxLines) return undefined
  const isHighlighted =
    size <= renderedMaxBytes && lines <= highlightedMaxLines && longest <= highlightedMaxLineLength
  const rendered = isHighlighted
    ? await render(['code', id, fileName].join('\n'), { kind: 'code', text, fileName })
    : undefined
  const plain = rendered === undefined ? renderPlainText(text) : undefined
  if (rendered === undefined && plain === undefined) return undefined
  return html`${hiddenNote(text)}<pre class="code" tabindex="0" aria-label="${fileName}"><code>${rendered ?? trusted(plain ?? '')}</code></pre>`
}

/** Says that not all hidden characters of a file are shown by their code points. */
function hiddenNote(text: string): Html | false {
  return (
    hasMoreRuns(text, maxRunsOfFile) &&
    html`<p class="file-note">Hidden characters are shown by their code points at the first ${grouped(maxRunsOfFile)} places, and as \ufffd after them. The raw file has them all.</p>`
  )
}

/** The number of lines of a text, and the length of the longest. */
export function measure(text: string): { lines: number; longest: number } {
  let [lines, longest, start] = [0, 0, 0]
  while (start < text.length) {
    const found = text.indexOf('\n', start)
    const end = found === -1 ? text.length : found
    lines += 1
    longest = Math.max(longest, end - start)
    start = end + 1
  }
  return { lines, longest }
}
