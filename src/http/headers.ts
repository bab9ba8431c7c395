import type { IncomingMessage } from 'node:http'

const contentSecurityPolicy = "default-src 'none'; frame-ancestors 'none'"

/** The headers of all responses. */
export const commonHeaders = [
  ['x-content-type-options', 'nosniff'],
  ['content-security-policy', contentSecurityPolicy],
  ['cache-control', 'no-store'],
] as const

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

/**
 * Whether an `If-None-Match` header has an entity tag, by the weak comparison: RFC 9110, sections 8.8.3.2 and 13.1.2. Not
 * for `*`, since the tag is known before it is known whether there is a response.
 */
export function matchesTag(header: string | undefined, entityTag: string): boolean {
  const tags = (header ?? '').split(',').map((tag) => withoutWeakness(tag.trim()))
  return tags.includes(withoutWeakness(entityTag))
}

function withoutWeakness(tag: string): string {
  return tag.startsWith('W/') ? tag.slice('W/'.length) : tag
}

/**
 * Whether a `Prefer` header (RFC 7240) has a preference. Scans each character once, because a regular expression takes
 * quadratic time for unclosed quotes.
 */
export function hasPreference(header: string, name: string): boolean {
  let isQuoted = false
  let isParameter = false
  let preference = ''
  for (let at = 0; at < header.length; at++) {
    const character = header.charAt(at)
    if (isQuoted) {
      if (character === '\\') at++
      isQuoted = character !== '"'
    } else if (character === ',') {
      if (preference.trim().toLowerCase() === name) return true
      preference = ''
      isParameter = false
    } else if (character === ';') isParameter = true
    else if (character === '"') {
      isQuoted = true
      if (!isParameter) preference += '""'
    } else if (!isParameter) preference += character
  }
  return preference.trim().toLowerCase() === name
}

/** A Content-Disposition header: RFC 6266, with the encoding of RFC 8187. */
export function toContentDisposition(fileName: string): string {
  const plain = fileName.replace(/[^\w.-]/g, '_')
  if (plain === fileName) return `attachment; filename="${plain}"`
  const encoded = encodeURIComponent(fileName).replace(
    /['()*]/g,
    (letter) => `%${letter.charCodeAt(0).toString(16).toUpperCase()}`,
  )
  return `attachment; filename="${plain}"; filename*=UTF-8''${encoded}`
}
