import { type Html, html } from './render/html.ts'

// Made once: `toLocaleString` takes longer than the rest of a small page.
const digitGroups = new Intl.NumberFormat('en-US')

/** A number with its digits in groups: `1,234`. */
export function grouped(count: number): string {
  return digitGroups.format(count)
}

/** A number with its noun: `1 file`, `1,234 files`. */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${grouped(count)} ${count === 1 ? one : many}`
}

/** A path that is broken after slashes where it is too long for a line. */
export function breakable(path: string): Html {
  return html`${path.split(/(?<=\/)/).map((part) => html`${part}<wbr>`)}`
}

/** The first line of a commit's message, or words for an empty one, so that a link has a text. */
export function orNoMessage(summary: string): string {
  return summary || '(no message)'
}

/** The name of a person in a commit, which may have only an address, or neither. */
export function shownName({ name, email }: { name: string; email: string }): string {
  return name.trim() || email.trim() || '(no name)'
}

/** The first seven digits of the id of an object. */
export function shortId(id: string): string {
  return id.slice(0, 7)
}
