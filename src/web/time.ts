import { type Html, html } from '../render/html.ts'

const steps: [limitSeconds: number, unitSeconds: number, unit: string][] = [
  [60, 1, 'second'],
  [3600, 60, 'minute'],
  [86_400, 3600, 'hour'],
  [7 * 86_400, 86_400, 'day'],
  [35 * 86_400, 7 * 86_400, 'week'],
  [365 * 86_400, 30.44 * 86_400, 'month'],
  [Number.POSITIVE_INFINITY, 365.25 * 86_400, 'year'],
]

/** Says how long ago a time is, in words: `3 hours ago`. */
function toAge(at: number, now: number): string {
  const seconds = (now - at) / 1000
  const distance = Math.abs(seconds)
  if (distance < 10) return seconds >= 0 ? 'just now' : 'in a moment'
  const [, unitSeconds, unit] = steps.find(([limit]) => distance < limit) ?? [0, 1, 'second']
  const count = Math.max(1, Math.floor(distance / unitSeconds))
  const words = `${count} ${unit}${count === 1 ? '' : 's'}`
  return seconds >= 0 ? `${words} ago` : `in ${words}`
}

/** A time as its age, with the exact time for machines and as a tooltip. */
export function age(at: number, now: number): Html {
  const date = new Date(Math.max(-8.64e15, Math.min(8.64e15, at)))
  const exact = date.toISOString()
  return html`<time datetime="${exact}" title="${exact.slice(0, 16).replace('T', ' ')} UTC">${toAge(at, now)}</time>`
}
