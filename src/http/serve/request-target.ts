import type { IncomingMessage } from 'node:http'

/** Splits the target of a request into its path and query, as sent. */
export function splitTarget({ url: target = '' }: Pick<IncomingMessage, 'url'>): {
  path: string
  query: string
} {
  // The target may be an absolute URL: RFC 9112, section 3.2.2.
  const url = target.startsWith('/') ? target : target.replace(/^https?:\/\/[^/?]*/i, '')
  const end = url.indexOf('?')
  return end === -1
    ? { path: url, query: '' }
    : { path: url.slice(0, end), query: url.slice(end + 1) }
}
