import type { Json } from '../workflow-parser/scope.ts'
import { toText } from './to-text.ts'

/** One of a list, whole and without what of it may be left out. */
type Item<T> = { whole: T; short: T }

/**
 * As much of a list, the oldest first, as `maxBytes` of JSON have room for: the oldest are made short first, then the
 * oldest are left out.
 */
export function fitNewest<T extends Json>(
  items: Item<T>[],
  maxBytes: number,
): { items: T[]; isWhole: boolean } {
  let room = maxBytes
  const shorts = items.map(({ short }) => bytesOf(short))
  let first = items.length
  for (; first > 0 && (shorts[first - 1] ?? 0) <= room; first--) room -= shorts[first - 1] ?? 0
  let firstWhole = items.length
  for (; firstWhole > first; firstWhole--) {
    const more = bytesOf(items[firstWhole - 1]?.whole ?? null) - (shorts[firstWhole - 1] ?? 0)
    if (more > room) break
    room -= more
  }
  const fitting = items
    .slice(first)
    .map(({ whole, short }, index) => (first + index < firstWhole ? short : whole))
  return { items: fitting, isWhole: firstWhole === 0 }
}

/** The bytes of a value in JSON, with the comma after it. */
function bytesOf(value: Json): number {
  return Buffer.byteLength(toText(value)) + 1
}
