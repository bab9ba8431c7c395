import type { OperationValues } from '../read-operations.ts'
import { type Html, html } from '../render/html.ts'
import { toDuration } from '../time.ts'

type Listed = OperationValues['listDeliveries'][number]

const step = 7
const height = 28
const words = { success: 'succeeded', failed: 'failed', failing: 'failing', pending: 'pending' }
const colors = {
  success: 'tick-good',
  failed: 'tick-bad',
  failing: 'tick-bad',
  pending: 'tick-busy',
}

type Settled = Pick<Listed, 'status' | 'error'>

/** The state of a delivery: one is failing when its last attempt has failed and another will follow. */
export const deliveryStateOf = ({ status, error }: Settled): keyof typeof words =>
  status === 'pending' && error !== null ? 'failing' : status

/** Deliveries as bars, the oldest first: the higher, the longer it took. Failures are also marked by their foot. */
export function deliveryTicks(newestFirst: readonly Listed[], slots: number): Html {
  const shown = newestFirst.slice(0, slots).toReversed()
  const free = slots - shown.length
  return html`<svg class="delivery-ticks" viewBox="0 0 ${slots * step} ${height + 4}" width="${slots * step}" height="${height + 4}" preserveAspectRatio="xMaxYMid slice" role="img" aria-label="${deliveryWords(newestFirst.slice(0, slots))}">${Array.from(
    { length: free },
    (_, index) =>
      html`<circle class="tick-none" cx="${index * step + 2}" cy="${height - 2}" r="1"/>`,
  )}${shown.map((one, index) => {
    const [state, tall] = [deliveryStateOf(one), heightOf(one.duration)]
    const x = (free + index) * step
    return html`<rect class="${colors[state]}" x="${x}" y="${height - tall}" width="4" height="${tall}" rx="1.5"/>${
      colors[state] === 'tick-bad' &&
      html`<rect class="${colors[state]}" x="${x}" y="${height + 2}" width="4" height="2"/>`
    }`
  })}</svg>`
}

/** The same in words: `48 succeeded, 2 failed`. */
export function deliveryWords(deliveries: readonly Listed[]): string {
  if (deliveries.length === 0) return 'No deliveries yet'
  const parts = Object.entries(words).flatMap(([state, word]) => {
    const count = deliveries.filter((one) => deliveryStateOf(one) === state).length
    return count === 0 ? [] : [`${count} ${word}`]
  })
  const times = deliveries.flatMap(({ duration }) => (duration === null ? [] : [duration]))
  const median = times.toSorted((one, other) => one - other)[Math.floor(times.length / 2)]
  return `${parts.join(', ')}${median === undefined ? '' : `; half of them within ${toShortTime(median)}`}`
}

/** From 1 ms to 10 s, by orders of magnitude. */
function heightOf(duration: number | null): number {
  const part = Math.log10(Math.max(1, duration ?? 1)) / 4
  return Math.round((0.35 + 0.65 * Math.min(1, part)) * height)
}

/** A duration of an attempt: `35 ms`, `1.2 s`. */
export function toShortTime(milliseconds: number): string {
  return milliseconds < 950 ? `${milliseconds} ms` : toDuration(milliseconds)
}
