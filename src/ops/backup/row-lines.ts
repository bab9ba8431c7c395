import { type Row, readRows } from '#database/rows.ts'
import type { Db } from '#database/schema.ts'
import { tables } from '#database/tables.ts'
import type { BackupFolder } from './backup-folder.ts'
import { type BackedUpTable, BackupError } from './manifest.ts'

// Files of this size: in append-only tables such as events, only the last file changes between backups.
const partBytes = 1024 * 1024

/** Adds all rows to a backup, as one line of JSON each. */
export async function addRows(db: Db, folder: BackupFolder): Promise<BackedUpTable[]> {
  const added: BackedUpTable[] = []
  for (const table of tables) {
    const backedUp: BackedUpTable = { name: table.name, rows: 0, parts: [] }
    let lines: Buffer[] = []
    let bytes = 0
    const flush = async () => {
      if (bytes > 0) backedUp.parts.push(await folder.addBytes('rows', Buffer.concat(lines)))
      lines = []
      bytes = 0
    }
    for await (const rows of table.isOfStore || table.isTransient ? [] : readRows(db, table)) {
      for (const row of rows) {
        const line = toRowLine(row)
        lines.push(line)
        bytes += line.length
        backedUp.rows += 1
        if (bytes >= partBytes) await flush()
      }
    }
    await flush()
    added.push(backedUp)
  }
  return added
}

export function toRowLine(row: Row): Buffer {
  return Buffer.from(`${JSON.stringify(row, toJson)}\n`)
}

/** Parses the rows of a file. Throws a BackupError for an invalid line. */
export function readRowLines(path: string, bytes: Buffer): Row[] {
  const lines = bytes.toString('utf8').split('\n')
  if (lines.pop() !== '') throw new BackupError(`${path}: its last line is incomplete.`)
  return lines.map((line, index) => {
    const row = parse(line)
    if (row) return row
    throw new BackupError(`${path}: line ${index + 1} is not a row.`)
  })
}

// Bytes become `{"base64": "…"}`. `this` has the original, as JSON.stringify has already called Buffer's toJSON.
function toJson(this: unknown, key: string, value: unknown): unknown {
  const original = key === '' ? value : (this as Record<string, unknown>)[key]
  return original instanceof Uint8Array
    ? { base64: Buffer.from(original).toString('base64') }
    : value
}

function parse(line: string): Row | undefined {
  try {
    const value: unknown = JSON.parse(line)
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined
    const entries = Object.entries(value).map(([column, cell]) => [column, toCell(cell)] as const)
    if (entries.length === 0 || entries.some(([, cell]) => cell === undefined)) return undefined
    // Every value is a cell, as checked above.
    return Object.fromEntries(entries) as Row
  } catch {
    return undefined
  }
}

function toCell(cell: unknown): Row[string] | undefined {
  if (cell === null || typeof cell === 'string' || typeof cell === 'number') return cell
  const isBytes = typeof cell === 'object' && 'base64' in cell && typeof cell.base64 === 'string'
  return isBytes ? Buffer.from(String(cell.base64), 'base64') : undefined
}
