import { Cron } from 'croner'
import { quoted } from '../source/fault-list.ts'
import type { FieldMessage } from '../source/fields.ts'

const month = '(?:\\d{1,2}|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)'
const weekday = '(?:[0-7]|sun|mon|tue|wed|thu|fri|sat)'
const ordinal = '\\d{1,2}'

// POSIX syntax, with steps and names as on GitHub. croner accepts more, which GitHub would reject.
const fields = [ordinal, ordinal, ordinal, month, weekday].map((value) => {
  const item = `(?:\\*|${value}(?:-${value})?)(?:/\\d{1,2})?`
  return new RegExp(`^${item}(?:,${item})*$`, 'i')
})

/** Checks a cron expression and its time zone. */
export function cronFault(cron: string, timezone: string | undefined): FieldMessage | undefined {
  const example = 'Write minute, hour, day, month and weekday: "30 4 * * 1-5".'
  if (cron.startsWith('@')) return [`Names such as ${quoted(cron)} are not supported.`, example]
  const parts = cron.trim().split(/\s+/)
  if (parts.length !== fields.length) {
    return [`${quoted(cron)} has ${parts.length} fields, not 5.`, example]
  }
  const wrong = parts.find((part, index) => part.length > 200 || !fields[index]?.test(part))
  if (wrong !== undefined) return [`${quoted(wrong)} is not a valid cron field.`, example]
  if (timezone !== undefined && !isTimezone(timezone)) {
    return [
      `Unknown time zone ${quoted(timezone)}.`,
      'Write a name such as "Europe/Berlin", or omit it for UTC.',
    ]
  }
  try {
    if (toCron(cron, timezone).nextRun(new Date(0))) return undefined
    return [`The schedule ${quoted(cron)} never matches.`, 'Check the day and the month.']
  } catch {
    return [`${quoted(cron)} is not a valid schedule: a value is out of range.`, example]
  }
}

/** The next time of a checked schedule, strictly after a time; both in milliseconds. Defaults to UTC. */
export function nextTime(cron: string, timezone: string | undefined, after: number): number {
  const next = toCron(cron, timezone).nextRun(new Date(after))
  if (!next) throw new Error(`the schedule ${cron} has no next time`)
  return next.getTime()
}

function toCron(cron: string, timezone: string | undefined): Cron {
  // `sloppyRanges` for 20/15, which GitHub has: from minute 20, every 15.
  return new Cron(cron, { mode: '5-part', timezone: timezone ?? 'UTC', sloppyRanges: true })
}

function isTimezone(name: string): boolean {
  try {
    return new Intl.DateTimeFormat('en', { timeZone: name }).format(0) !== ''
  } catch {
    return false
  }
}
