import { maxRunsOfFile, showHidden } from './hidden-characters.ts'
import { escapeHtml } from './html.ts'
import { maxFileLength, normalizeLineEnds } from './numbered-lines.ts'

const maxRows = 5000
const maxCells = 50_000

/** A value without quotes, by what separates it from the next one. */
const plainValues = { ',': /[^\n,]*/y, ';': /[^\n;]*/y, '\t': /[^\n\t]*/y }

type Row = { line: number; cells: string[] }

/**
 * Renders a file of separated values (RFC 4180) as a table, whose rows have the numbers of their lines. Undefined for one with a
 * quote that does not end, or whose HTML is too long.
 */
export function renderTable(text: string, fileName: string): string | undefined {
  const source = normalizeLineEnds(text)
  const isTabbed = /\.tsv$/i.test(fileName)
  const rows = readRows(source, isTabbed ? '\t' : separatorOf(source))
  if (!rows) return undefined
  const [first, ...others] = rows.list
  const head = first ? `<thead>${toRow(first, 'th scope="col"', 'th')}</thead>` : ''
  const body = others.map((row) => toRow(row, 'td', 'td')).join('')
  const note = rows.isCut
    ? `<p>Only the first ${rows.list.length} rows are shown. The source has all.</p>`
    : ''
  const html = `${note}<div class="scroll" tabindex="0"><table>${head}<tbody>${body}</tbody></table></div>`
  const shown = showHidden(html, maxRunsOfFile)
  return shown.length > maxFileLength ? undefined : shown
}

function toRow({ line, cells }: Row, opening: string, closing: string): string {
  const values = cells.map((cell) => `<${opening}>${escapeHtml(cell)}</${closing}>`).join('')
  return `<tr id="L${line}"><th scope="row">${line}</th>${values}</tr>`
}

/** Many programs write semicolons where commas are in numbers. */
function separatorOf(source: string): ',' | ';' {
  const [first = ''] = source.split('\n', 1)
  return first.split(';').length > first.split(',').length ? ';' : ','
}

/** Reads rows up to a limit, each with the number of its first line. */
function readRows(source: string, separator: keyof typeof plainValues) {
  const quoted = /"([^"]*(?:""[^"]*)*)"/y
  const plain = plainValues[separator]
  const list: Row[] = []
  let [at, line, cellCount] = [0, 1, 0]
  while (at < source.length) {
    if (list.length === maxRows || cellCount >= maxCells) return { list, isCut: true }
    const row: Row = { line, cells: [] }
    for (let isInRow = true; isInRow; ) {
      let cell = ''
      if (source[at] === '"') {
        quoted.lastIndex = at
        const [all, content = ''] = quoted.exec(source) ?? []
        if (all === undefined) return undefined
        cell = content.replaceAll('""', '"')
        line += all.split('\n').length - 1
        at += all.length
      }
      plain.lastIndex = at
      const [rest = ''] = plain.exec(source) ?? []
      row.cells.push(cell + rest)
      at += rest.length
      cellCount += 1
      isInRow = source[at] === separator
      at += 1
    }
    line += 1
    list.push(row)
  }
  return { list, isCut: false }
}
