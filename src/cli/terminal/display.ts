import { cutToWidth, displayWidth } from '#base/display-width.ts'
import { printable, toDate, toTable } from '#base/format.ts'
import type { Json } from '#base/json.ts'
import { toSafeJson } from '#base/safe-text.ts'
import type { Terminal } from './terminal.ts'

/** A cell of a table: the property that it shows, or how it is made of the row. */
export type Cell = string | ((row: Json) => string)

/** Columns of a table, or lines, by their titles. */
export type Columns = Record<string, Cell>

const columnMinWidth = 10
const gap = 2

/** A property of a response, by its path: `actor.username`; null if it is missing. */
export function at(value: Json, path: string): Json {
  let found: Json = value
  for (const key of path.split('.')) {
    if (found === null || typeof found !== 'object' || Array.isArray(found)) return null
    found = Object.hasOwn(found, key) ? (found[key] ?? null) : null
  }
  return found
}

/** The text of a property. */
export function textAt(value: Json, path: string): string {
  return toText(at(value, path))
}

/** The entries of a list; none if it is missing. */
export function listAt(value: Json, path: string): Json[] {
  const list = at(value, path)
  return Array.isArray(list) ? list : []
}

/** A cell with a time. */
export function dateOf(path: string): (row: Json) => string {
  return (row) => {
    const value = at(row, path)
    const isTime = typeof value === 'number' && Number.isFinite(new Date(value).getTime())
    return value === null || isTime ? toDate(value) : toText(value)
  }
}

/** A cell with the first characters of a commit. */
export function shortOf(path: string): Cell {
  return (row) => textAt(row, path).slice(0, 10)
}

/** Prints a sentence for people, or the JSON of a response. */
export function showResult(
  { json, terminal }: { json: boolean; terminal: Terminal },
  body: unknown,
  sentence: string,
): void {
  terminal.out(json ? toSafeJson(body) : `${printable(sentence)}\n`)
}

/** Formats a table whose lines are not longer than the terminal. */
export function toFittedTable(columns: Columns, rows: Json[], width: number | undefined): string {
  const cells = rows.map((row) => Object.values(columns).map((cell) => cellOf(cell, row)))
  return toTable(fit([Object.keys(columns), ...cells], width))
}

/** Formats properties as lines. */
export function toFields(columns: Columns, body: Json): string {
  return Object.entries(columns)
    .map(([name, cell]) => [name, cellOf(cell, body)] as const)
    .filter(([, text]) => text !== '')
    .map(([name, text]) => `${name}: ${text}\n`)
    .join('')
}

function cellOf(cell: Cell, row: Json): string {
  return printable(typeof cell === 'string' ? textAt(row, cell) : cell(row))
}

function toText(value: Json): string {
  if (value === null) return ''
  if (Array.isArray(value)) return value.map(toText).join(' ')
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}

// The widest column gives way first, until the lines fit. Other commands take the ids, so those stay whole, and columns
// for which no space is left are omitted from the end.
function fit(rows: string[][], width: number | undefined): string[][] {
  const [names = []] = rows
  if (width === undefined) return rows
  const widths = names.map((_, column) =>
    // Not Math.max(...widths): a call takes a limited number of arguments.
    rows.reduce((widest, row) => Math.max(widest, displayWidth(row[column] ?? '')), 0),
  )
  const minWidths = widths.map((one, column) =>
    names[column] === 'ID' ? one : Math.min(one, columnMinWidth),
  )
  while (minWidths.length > 1 && lineWidth(minWidths) > width) minWidths.pop()
  widths.length = minWidths.length
  while (lineWidth(widths) > width) {
    const reducible = widths.map((one, column) => (one > (minWidths[column] ?? 0) ? one : 0))
    const widest = Math.max(...reducible)
    if (widest === 0) break
    widths[reducible.indexOf(widest)] = widest - 1
  }
  return rows.map((row) => widths.map((one, column) => cutToWidth(row[column] ?? '', one)))
}

function lineWidth(widths: number[]): number {
  return widths.reduce((sum, one) => sum + one + gap, -gap)
}
