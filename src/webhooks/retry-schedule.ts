import { dayMs } from '../base/clock.ts'

/** Delays before the attempts of a delivery in seconds, one for each. */
export type Schedule = readonly [number, ...number[]]

type Attempted = {
  schedule: Schedule
  event: string
  /** How many attempts were made, the one that has just failed included. */
  attempts: number
  now: number
  /** How long the receiver asked not to be sent it again. */
  retryAfterMs: number | undefined
  /** From 0 up to, but not including, 1. */
  random: number
}

// Many that failed together are not to come back together.
const jitter = 0.1
const retryAfterMostMs = dayMs

/** How many attempts a delivery is given by itself. A ping is sent to be looked at, so it is not sent again. */
export function maxAttempts(event: string, schedule: Schedule): number {
  return event === 'ping' ? 1 : schedule.length
}

/** When the attempt after a failed one is due; undefined when there is to be none. */
export function nextAttemptAt(attempted: Attempted): number | undefined {
  const { schedule, event, attempts, now, retryAfterMs = 0, random } = attempted
  if (attempts >= maxAttempts(event, schedule)) return undefined
  const delayMs = (schedule[attempts] ?? 0) * 1000 * (1 + jitter * (2 * random - 1))
  return now + Math.round(Math.max(delayMs, retryAfterMs))
}

/**
 * Reads `Retry-After`, in seconds or as a date, as a time from now in milliseconds; a day at most. Undefined for
 * what says nothing: https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3.
 */
export function parseRetryAfter(text: string, now: number): number | undefined {
  const value = text.trim()
  const ms = /^\d+$/.test(value) ? Number(value) * 1000 : parseDate(value) - now
  return Number.isNaN(ms) ? undefined : Math.min(Math.max(ms, 0), retryAfterMostMs)
}

// Date.parse alone takes almost anything for a date, `-1` for one.
function parseDate(text: string): number {
  return /^[A-Z][a-z]+,? /.test(text) ? Date.parse(text) : Number.NaN
}
