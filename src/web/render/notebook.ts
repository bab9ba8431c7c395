import { createAnsiReader } from './ansi-log.ts'
import type { DocumentPlace } from './document-links.ts'
import { maxRunsOfFile, showHidden } from './hidden-characters.ts'
import { escapeHtml } from './html.ts'
import { highlightFence, renderMarkdown, sanitizeHtml } from './markdown.ts'
import { maxFileLength } from './numbered-lines.ts'

const maxCells = 1000
const maxOutputs = 50
/** How much of the types of an output that cannot be shown is named. */
const maxNamedTypes = 5
const maxNamedLength = 200
const maxOutputLength = 20_000

/**
 * Renders a Jupyter notebook (nbformat 4) as its cells with their outputs. What it has as HTML is sanitized, and its scripts and
 * pictures are left out. Undefined for other JSON, or if the HTML is too long.
 */
export function renderNotebook(text: string, place: DocumentPlace): string | undefined {
  const notebook = parse(text)
  const cells = notebook?.cells
  if (!notebook || !Array.isArray(cells)) return undefined
  const metadata = toRecord(notebook.metadata)
  const language = String(
    toRecord(metadata.language_info).name ?? toRecord(metadata.kernelspec).language ?? 'python',
  )
  let html = ''
  for (const cell of cells.slice(0, maxCells)) {
    html += cellOf(toRecord(cell), { place, language })
    if (html.length > maxFileLength) return undefined
  }
  const left = cells.length - maxCells
  return left > 0 ? `${html}<p>${left} more cells are not shown.</p>` : html
}

type Options = { place: DocumentPlace; language: string }

function cellOf(cell: Record<string, unknown>, { place, language }: Options): string {
  if (!isText(cell.source) || typeof cell.cell_type !== 'string')
    return leftOut('A cell without text')
  const source = toText(cell.source)
  if (cell.cell_type === 'markdown') return renderMarkdown(source, place) ?? preformatted(source)
  if (cell.cell_type !== 'code') return preformatted(source)
  const count = typeof cell.execution_count === 'number' ? cell.execution_count : ' '
  const code = showHidden(highlightFence(source, language), maxRunsOfFile)
  const outputs = Array.isArray(cell.outputs) ? cell.outputs : []
  const shown = outputs.slice(0, maxOutputs).map((output) => outputOf(toRecord(output), place))
  const left = outputs.length - shown.length
  return `<p class="soft">In [${count}]</p><pre tabindex="0"><code>${code}</code></pre>${shown.join('')}${left > 0 ? `<p>${left} more outputs are not shown.</p>` : ''}`
}

/** An output in the richest of its forms that can be shown. */
function outputOf(output: Record<string, unknown>, place: DocumentPlace): string {
  if (output.output_type === 'stream' && isText(output.text))
    return preformatted(toText(output.text))
  if (output.output_type === 'error' && (isText(output.traceback) || isText(output.ename)))
    return preformatted(toText(output.traceback, '\n') || `${output.ename}: ${output.evalue}`)
  const data = toRecord(output.data)
  const html = toText(data['text/html'])
  const sanitized = html === '' || html.length > maxFileLength ? '' : sanitizeHtml(html, place)
  // Of what a script draws, nothing is left.
  if (sanitized.replace(/<[^<>]*>/g, '').trim() !== '') return `<div>${sanitized}</div>`
  const document = toText(data['text/markdown'])
  if (document !== '') return renderMarkdown(document, place) ?? preformatted(document)
  const picture = Object.keys(data).find((type) => type.startsWith('image/'))
  const note = picture === undefined ? '' : leftOut('A picture')
  const plain = toText(data['text/plain'])
  if (plain !== '') return note + preformatted(plain)
  const types = Object.keys(data).slice(0, maxNamedTypes).join(', ').slice(0, maxNamedLength)
  return note || leftOut(`An output of ${types === '' ? 'no known kind' : `the kind ${types}`}`)
}

function leftOut(what: string): string {
  return `<p class="soft">${showHidden(escapeHtml(what.toWellFormed()))}, which only the raw file has.</p>`
}

/** Text without its colours. */
function preformatted(text: string): string {
  const read = createAnsiReader()
  const cut = text.length > maxOutputLength
  const lines = text.slice(0, maxOutputLength).split('\n')
  const plain = lines
    .map((line) =>
      read(line)
        .map(([, part]) => part)
        .join(''),
    )
    .join('\n')
  return `<pre tabindex="0">${showHidden(escapeHtml(plain))}${cut ? '\n…' : ''}</pre>`
}

function parse(text: string): Record<string, unknown> | undefined {
  try {
    return toRecord(JSON.parse(text.replace(/^\ufeff/, '')))
  } catch {
    return undefined
  }
}

function toRecord(value: unknown): Record<string, unknown> {
  // An object of JSON has such properties.
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
}

function isText(value: unknown): boolean {
  const isString = (part: unknown) => typeof part === 'string'
  return Array.isArray(value) ? value.every(isString) : isString(value)
}

/** A text, which notebooks have as such or as a list of lines. */
function toText(value: unknown, separator = ''): string {
  const text = Array.isArray(value)
    ? value.filter((part) => typeof part === 'string').join(separator)
    : value
  return typeof text === 'string' ? text.toWellFormed() : ''
}
