import type { Json } from '#base/json.ts'
import { toText } from './to-text.ts'

/** An item in full and without its optional parts. */
type Item<T> = { full: T; short: T }

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
  let firstFull = items.length
  for (; firstFull > first; firstFull--) {
    const more = bytesOf(items[firstFull - 1]?.full ?? null) - (shorts[firstFull - 1] ?? 0)
    if (more > bytesLeft) break
    bytesLeft -= more
  }
  const fitting = items
    .slice(first)
    .map(({ full, short }, index) => (first + index < firstFull ? short : full))
  return { items: fitting, isComplete: firstFull === 0 }
}

/** The bytes of a value in JSON, plus a comma. */
function bytesOf(value: Json): number {
  return Buffer.byteLength(toText(value)) + 1
}
