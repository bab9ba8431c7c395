import { UsageError } from '../../commands/usage-error.ts'
import type { CommandInput } from '../operation.ts'

/** The value of `--expires-in-days`: null for never. The server checks the range. */
export function daysOf(text: string | undefined): number | null | undefined {
  return text === 'never' ? null : wholeOf(text, '--expires-in-days', ' or never')
}

/** The value of `--expires-in-seconds`. */
export function secondsOf(text: string | undefined): number | undefined {
  return wholeOf(text, '--expires-in-seconds')
}

/** The value of `--limit`. */
export function limitOf(text: string | undefined, fallback: number): number {
  if (text === undefined) return fallback
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text)
  throw new UsageError('--limit takes a whole number from 1.')
}

/** The sentence after a list that is longer than its limit. */
export function goesOn(limit: number): string {
  return `The list goes on after these ${limit}; --limit shows more.`
}

/** A whole number that an option takes. */
export function wholeOf(text: string | undefined, option: string, also = ''): number | undefined {
  if (text === undefined) return undefined
  if (/^\d{1,15}$/.test(text)) return Number(text)
  throw new UsageError(`${option} takes a whole number${also}; not "${text}".`)
}

/** A time that an option takes: an ISO 8601 date, or milliseconds since 1970. */
export function timeOf(text: string | undefined, option: string): number | undefined {
  if (text === undefined) return undefined
  const time = /^\d{1,15}$/.test(text) ? Number(text) : Date.parse(text)
  if (Number.isFinite(time)) return time
  throw new UsageError(`${option} takes a time such as 2026-11-24T08:00:00Z; not "${text}".`)
}

/** The value of `--author`. */
export function authorOf(text: string | undefined): { name: string; email: string } | undefined {
  if (text === undefined) return undefined
  const [, name = '', email = ''] = /^([^<>]+) <([^<>]+)>$/.exec(text) ?? []
  if (name !== '') return { name, email }
  throw new UsageError(`--author takes "Name <email>"; not "${text}".`)
}

/** A path in the files of a repository, as a shell may have completed it: without `.` and doubled slashes. */
export function pathOf(text: string): string {
  const names = text.split('/').filter((name) => name !== '' && name !== '.')
  if (!text.startsWith('/') && !names.includes('..')) return names.join('/')
  throw new UsageError(
    `The path "${text}" is not within the repository; paths start at its root, such as src/main.c, and have no "..".`,
  )
}

/** The query for a path; none for the root. */
export function pathQueryOf({ option, argument }: CommandInput) {
  const path = pathOf(option('path') ?? argument('path'))
  return { path: path === '' ? undefined : path, pathBase64: option('pathBase64') }
}

/** The query for a place in the files of a repository. */
export function placeOf(input: CommandInput) {
  return { rev: input.option('rev'), ...pathQueryOf(input) }
}
