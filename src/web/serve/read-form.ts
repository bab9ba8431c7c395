import { Problem } from '#base/problem.ts'
import { readFormBody } from '#http/serve/json-body.ts'
import type { PageExchange } from '#http/serve/page-requests.ts'

const maxBytes = 64 * 1024

/**
 * Reads the fields of a form of this service. Throws `origin_forbidden` for one that another site sent,
 * `unsupported_media_type`, and the Problems of bodies that are too large or too slow.
 */
export async function readForm(
  { request }: Pick<PageExchange, 'request'>,
  { baseUrl, timeoutMs }: { baseUrl: string; timeoutMs: number },
): Promise<URLSearchParams> {
  if (!isSameOrigin(request, baseUrl)) {
    throw new Problem(
      'origin_forbidden',
      'This form came from another site, or from a browser that does not say where it came from.',
    )
  }
  return readFormBody(request, { maxBytes, timeoutMs })
}

/**
 * Whether a form came from this service, by `Sec-Fetch-Site` (Fetch Metadata Request Headers) or, from older browsers,
 * `Origin`. Without both it is no browser with our pages.
 */
function isSameOrigin({ headers }: PageExchange['request'], baseUrl: string): boolean {
  const site = headers['sec-fetch-site']
  if (site !== undefined || headers.origin === undefined) return site === 'same-origin'
  const { origin, protocol } = new URL(baseUrl)
  return headers.origin === origin || headers.origin === `${protocol}//${headers.host}`
}
