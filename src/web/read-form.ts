import { Problem } from '#base/problem.ts'
import { collectBody } from '#http/serve/json-body.ts'
import type { PageExchange } from '#http/serve/page-requests.ts'

const maxBytes = 64 * 1024

/** Reads the fields of a form. Throws `unsupported_media_type`, and the Problems of bodies that are too large or too slow. */
export async function readForm(
  { request }: Pick<PageExchange, 'request'>,
  timeoutMs: number,
): Promise<URLSearchParams> {
  const type = request.headers['content-type'] ?? ''
  if (!/^application\/x-www-form-urlencoded *(;|$)/i.test(type)) {
    throw new Problem('unsupported_media_type', 'This address takes a form.')
  }
  return new URLSearchParams((await collectBody(request, { maxBytes, timeoutMs })).toString('utf8'))
}
