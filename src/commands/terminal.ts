/** Where a command writes, what it may read, and what it may ask. */
export type Terminal = {
  out: (text: string) => void
  /** The start of standard input: all of it, unless it is longer than anything that a command takes. */
  read: () => Promise<string>
  /** Asks a person; undefined when nobody is there to answer. */
  ask: ((question: string) => Promise<string>) | undefined
}

/** Rows as aligned columns under a heading. */
export function toTable(heading: string[], rows: string[][]): string {
  const all = [heading, ...rows.map((row) => row.map(printable))]
  const widths = heading.map((_, column) =>
    Math.max(...all.map((row) => (row[column] ?? '').length)),
  )
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

export function toJson(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`
}

/** A time as people read it, in UTC. */
export function toDate(milliseconds: number | null): string {
  return milliseconds === null
    ? 'never'
    : new Date(milliseconds).toISOString().slice(0, 16).replace('T', ' ')
}

// What a stranger chose as a name must not move a terminal's cursor.
function printable(text: string): string {
  return text.replace(/[\0-\x1f\x7f-\x9f]/g, '?')
}
