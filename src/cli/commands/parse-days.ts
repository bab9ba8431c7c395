import { maxExpiryDays, maxExpirySeconds, minExpirySeconds } from '#access/names.ts'

/** Parses the value of `--expires-in-days`: null for never, undefined when it is not set. */
export function parseDays(text: string | undefined): number | null | undefined {
  if (text === undefined) return undefined
  if (text === 'never') return null
  const days = Number(text)
  if (Number.isInteger(days) && days >= 1 && days <= maxExpiryDays) return days
  throw new Error(`--expires-in-days takes 1 to ${maxExpiryDays}, or never; not "${text}".`)
}

/** Parses the value of `--expires-in-seconds`: undefined when it is not set. */
export function parseSeconds(text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  const seconds = Number(text)
  const isComplete = Number.isInteger(seconds)
  if (isComplete && seconds >= minExpirySeconds && seconds <= maxExpirySeconds) return seconds
  throw new Error(
    `--expires-in-seconds takes ${minExpirySeconds} to ${maxExpirySeconds}; not "${text}".`,
  )
}
