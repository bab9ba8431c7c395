import { displayWidth } from './display-width.ts'

/** Formats rows as aligned columns, without control characters. */
export function toTable(rows: string[][]): string {
  const all = rows.map((row) => row.map(printable))
  const widths: number[] = []
  for (const row of all) {
    for (const [column, cell] of row.entries()) {
      widths[column] = Math.max(widths[column] ?? 0, displayWidth(cell))
    }
  }
  return all
    .map((row) =>
      row
        .map((cell, column) => cell + ' '.repeat((widths[column] ?? 0) - displayWidth(cell)))
        .join('  ')
        .trimEnd(),
    )
    .map((line) => `${line}\n`)
    .join('')
}

const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB']

/** Formats a number of bytes for people: `1.5 MiB`. */
export function toSize(bytes: number): string {
  const power = Math.min(units.length - 1, Math.floor(Math.log2(Math.max(1, bytes)) / 10))
  return `${Number((bytes / 1024 ** power).toFixed(1))} ${units[power]}`
}

/** Formats a time for people, in UTC: `2026-11-22 09:30`, or `never`. */
export function toDate(milliseconds: number | null): string {
  return milliseconds === null
    ? 'never'
    : new Date(milliseconds).toISOString().slice(0, 16).replace('T', ' ')
}

/**
 * Replaces control and invisible characters: untrusted text must not move a terminal's cursor, reverse the
 * direction of text, or imitate another name.
 */
export function printable(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '?')
}

/** A line without what would control a terminal, except tabs. */
export function printableLine(text: string): string {
  return text.split('\t').map(printable).join('\t')
}

/** Begins a text with a capital letter. */
export function capitalized(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1)
}
