import { dayMs } from '#base/clock.ts'

/** The delay in seconds before each attempt of a delivery. */
export type Schedule = readonly [number, ...number[]]

type Attempted = {
  schedule: Schedule
  event: string
  /** The number of attempts so far, the one that just failed included. */
  attempts: number
  now: number
  /** The delay that the receiver requested. */
  retryAfterMs: number | undefined
  /** From 0 up to, but not including, 1. */
  random: number
}

// Spreads retries of deliveries that failed together.
const jitter = 0.1
const maxRetryAfterMs = dayMs

/** The number of automatic attempts of a delivery. A ping is not retried. */
export function maxAttempts(event: string, schedule: Schedule): number {
  return event === 'ping' ? 1 : schedule.length
}

/** When the next attempt after a failed one is due; undefined when there is none. */
export function nextAttemptAt(attempted: Attempted): number | undefined {
  const { schedule, event, attempts, now, retryAfterMs = 0, random } = attempted
  if (attempts >= maxAttempts(event, schedule)) return undefined
  const delayMs = (schedule[attempts] ?? 0) * 1000 * (1 + jitter * (2 * random - 1))
  return now + Math.round(Math.max(delayMs, retryAfterMs))
}

/**
 * Parses `Retry-After`, in seconds or as a date, into a delay in milliseconds of at most a day. Undefined when it is
 * invalid: https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3.
 */
export function parseRetryAfter(text: string, now: number): number | undefined {
  const value = text.trim()
  const ms = /^\d+$/.test(value) ? Number(value) * 1000 : parseDate(value) - now
  return Number.isNaN(ms) ? undefined : Math.min(Math.max(ms, 0), maxRetryAfterMs)
}

// Date.parse alone accepts almost any text, for example `-1`.
function parseDate(text: string): number {
  return /^[A-Z][a-z]+,? /.test(text) ? Date.parse(text) : Number.NaN
}
