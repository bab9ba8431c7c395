/** Rows as aligned columns, without control characters. */
export function toTable(rows: string[][]): string {
  const all = rows.map((row) => row.map(printable))
  const widths: number[] = []
  for (const row of all) {
    for (const [column, cell] of row.entries()) {
      widths[column] = Math.max(widths[column] ?? 0, cell.length)
    }
  }
  return all
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .map((line) => `${line}\n`)
    .join('')
}

const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB']

/** A number of bytes as people read it. */
export function toSize(bytes: number): string {
  const power = Math.min(units.length - 1, Math.floor(Math.log2(Math.max(1, bytes)) / 10))
  return `${Number((bytes / 1024 ** power).toFixed(1))} ${units[power]}`
}

/** A time as people read it, in UTC. */
export function toDate(milliseconds: number | null): string {
  return milliseconds === null
    ? 'never'
    : new Date(milliseconds).toISOString().slice(0, 16).replace('T', ' ')
}

/**
 * A text without characters that control or are not seen: what a stranger chose as a name must not move
 * a terminal's cursor, turn the direction of what is read, or look like another name.
 */
export function printable(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '?')
}
