import { type Html, html } from './render/html.ts'

const steps: [limitSeconds: number, unitSeconds: number, unit: string][] = [
  [60, 1, 'second'],
  [3600, 60, 'minute'],
  [86_400, 3600, 'hour'],
  [7 * 86_400, 86_400, 'day'],
  [35 * 86_400, 7 * 86_400, 'week'],
  [365 * 86_400, 30.44 * 86_400, 'month'],
  [Number.POSITIVE_INFINITY, 365.25 * 86_400, 'year'],
]

const justNowSeconds = 10

/** Says how long ago a time is, in words: `3 hours ago`. */
function toAge(at: number, now: number): string {
  const seconds = (now - at) / 1000
  const distance = Math.abs(seconds)
  if (distance < justNowSeconds) return seconds >= 0 ? 'just now' : 'in a moment'
  const { count, unit } = countUnits(distance)
  const words = `${count} ${unit}${count === 1 ? '' : 's'}`
  return seconds >= 0 ? `${words} ago` : `in ${words}`
}

function countUnits(seconds: number) {
  const [limit, unitSeconds, unit] = steps.find(([end]) => seconds < end) ?? [0, 1, 'second']
  return { count: Math.max(1, Math.floor(seconds / unitSeconds)), limit, unitSeconds, unit }
}

/** Returns until when the age of a time stays the same in words. That of a time to come may change at once. */
export function ageEnd(at: number, now: number): number {
  const seconds = (now - at) / 1000
  if (seconds < 0) return now
  if (seconds < justNowSeconds) return at + justNowSeconds * 1000
  const { count, limit, unitSeconds } = countUnits(seconds)
  return at + Math.min(limit, (count + 1) * unitSeconds) * 1000
}

/** A time as its age, with the exact time for machines and as a tooltip. */
export function age(at: number, now: number): Html {
  const date = new Date(Math.max(-8.64e15, Math.min(8.64e15, at)))
  const exact = date.toISOString()
  return html`<time datetime="${exact}" title="${exact.slice(0, 16).replace('T', ' ')} UTC">${toAge(at, now)}</time>`
}

/** Formats a duration in words: `0.4 s`, `38 s`, `1 min 37 s`, `2 h 5 min`, `3 d 4 h`. */
export function toDuration(milliseconds: number): string {
  const seconds = Math.max(0, milliseconds) / 1000
  if (seconds === 0) return '0 s'
  if (seconds < 0.95) return `${Math.max(0.1, Math.round(seconds * 10) / 10)} s`
  const whole = Math.round(seconds)
  const units: [size: number, unit: string][] = [
    [86_400, 'd'],
    [3600, 'h'],
    [60, 'min'],
    [1, 's'],
  ]
  const first = units.findIndex(([size]) => whole >= size)
  const [size, unit] = units[first] ?? [1, 's']
  const [nextSize, nextUnit] = units[first + 1] ?? [1, '']
  const rest = nextUnit === '' ? 0 : Math.floor((whole % size) / nextSize)
  return `${Math.floor(whole / size)} ${unit}${rest > 0 ? ` ${rest} ${nextUnit}` : ''}`
}
