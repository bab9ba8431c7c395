import type { Json } from '#base/json.ts'
import { toText } from './to-text.ts'

/** An item in full and without its optional parts. */
type Item<T> = { whole: T; short: T }

/**
 * Fits a list, oldest first, into `maxBytes` of JSON: the oldest items are shortened first, then omitted.
 */
export function fitNewest<T extends Json>(
  items: Item<T>[],
  maxBytes: number,
): { items: T[]; isComplete: boolean } {
  let bytesLeft = maxBytes
  const shorts = items.map(({ short }) => bytesOf(short))
  let first = items.length
  for (; first > 0 && (shorts[first - 1] ?? 0) <= bytesLeft; first--)
    bytesLeft -= shorts[first - 1] ?? 0
  let firstWhole = items.length
  for (; firstWhole > first; firstWhole--) {
    const more = bytesOf(items[firstWhole - 1]?.whole ?? null) - (shorts[firstWhole - 1] ?? 0)
    if (more > bytesLeft) break
    bytesLeft -= more
  }
  const fitting = items
    .slice(first)
    .map(({ whole, short }, index) => (first + index < firstWhole ? short : whole))
  return { items: fitting, isComplete: firstWhole === 0 }
}

/** The bytes of a value in JSON, plus a comma. */
function bytesOf(value: Json): number {
  return Buffer.byteLength(toText(value)) + 1
}
