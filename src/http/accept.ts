import type { IncomingMessage } from 'node:http'

/**
 * Whether an `Accept` header names a media type, and weights none of others above it: RFC 9110, section 12.5.1. A range such
 * as `*\/*` does not name it.
 */
export function prefersType(header: string, type: string, others: readonly string[]): boolean {
  const ranges = header.split(',').map(toRange)
  const named = ranges.find((range) => range.type === type)
  if (!named || named.weight === 0) return false
  return others.every((other) => weightOf(ranges, other) <= named.weight)
}

type Range = { type: string; weight: number }

function toRange(text: string): Range {
  const [type = '', ...parameters] = text.split(';').map((part) => part.trim().toLowerCase())
  const weight = parameters.find((parameter) => parameter.startsWith('q='))?.slice('q='.length)
  const parsed = weight === undefined ? 1 : Number(weight)
  return { type, weight: parsed >= 0 && parsed <= 1 ? parsed : 1 }
}

/** The weight of a type by the most specific range that includes it. */
function weightOf(ranges: readonly Range[], type: string): number {
  const [group = ''] = type.split('/')
  for (const wanted of [type, `${group}/*`, '*/*']) {
    const found = ranges.find((range) => range.type === wanted)
    if (found) return found.weight
  }
  return 0
}

/** Whether a client takes responses that are compressed by gzip. */
export function acceptsGzip({ headers }: Pick<IncomingMessage, 'headers'>): boolean {
  const ranges = String(headers['accept-encoding'] ?? '')
    .split(',')
    .map(toRange)
  return ranges.some(({ type, weight }) => type === 'gzip' && weight > 0)
}
