import { Problem } from '#base/problem.ts'
import { hasArrived, readFormBody } from '#http/serve/json-body.ts'
import type { PageExchange } from '#http/serve/page-requests.ts'
import type { Visit } from './visits.ts'

const fieldsMaxBytes = 64 * 1024

/**
 * Reads the fields of a form of this service; returns them with the visit, which is opened again if they were waited for.
 * Throws `origin_forbidden` for a form that another site sent, `unsupported_media_type`, and the Problems of bodies that
 * are too large or too slow.
 */
export async function readForm(
  { request }: Pick<PageExchange, 'request'>,
  visit: Visit,
  { timeoutMs, maxBytes = fieldsMaxBytes }: { timeoutMs: number; maxBytes?: number | undefined },
): Promise<{ fields: URLSearchParams; visit: Visit }> {
  if (!isSameOrigin(request, visit.context.baseUrl)) {
    throw new Problem(
      'origin_forbidden',
      'This form came from another site, or from a browser that does not say where it came from.',
    )
  }
  const isLate = !hasArrived(request)
  const fields = await readFormBody(request, { maxBytes, timeoutMs })
  return { fields, visit: isLate ? await visit.reopen() : visit }
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
