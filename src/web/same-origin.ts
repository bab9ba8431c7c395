import type { IncomingMessage } from 'node:http'
import { Problem } from '#base/problem.ts'

/**
 * Throws `origin_forbidden` for a form that another site sent: with `Sec-Fetch-Site` (Fetch Metadata Request Headers)
 * or, from older browsers, `Origin`. Without both it is no browser with our pages.
 */
export function assertSameOrigin(
  { headers }: Pick<IncomingMessage, 'headers'>,
  baseUrl: string,
): void {
  const site = headers['sec-fetch-site']
  if (site === 'same-origin') return
  if (site === undefined && headers.origin !== undefined) {
    const { origin, protocol } = new URL(baseUrl)
    if (headers.origin === origin || headers.origin === `${protocol}//${headers.host}`) return
  }
  throw new Problem(
    'origin_forbidden',
    'This form came from another site, or from a browser that does not say where it came from.',
  )
}
