import { hash } from 'node:crypto'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { PageExchange } from '../http/page-requests.ts'
import type { Html } from '../render/html.ts'
import type { RawResponse, Redirect } from './page.ts'

const compressFromBytes = 4096
const compress = promisify(gzip)

/** Sends a redirection. */
export function sendRedirect(
  { response }: PageExchange,
  { location, status, headers }: Redirect,
): void {
  response
    .writeHead(status, { ...headers, location, 'cache-control': 'no-store', 'content-length': 0 })
    .end()
}

/** Sends what is no page. */
export async function sendRaw(
  { request, response, signal }: PageExchange,
  { type, content, headers }: RawResponse,
): Promise<void> {
  response.setHeader('cache-control', 'private, no-cache')
  response.setHeader('vary', 'cookie')
  response.setHeader('content-type', type)
  for (const [name, value] of Object.entries(headers)) response.setHeader(name, value)
  if (request.method === 'HEAD') {
    if (content instanceof Readable) content.destroy()
    response.end()
    return
  }
  if (typeof content === 'string' || Buffer.isBuffer(content)) {
    const bytes = Buffer.from(content)
    response.setHeader('content-length', bytes.length)
    response.end(bytes)
    return
  }
  await pipeline(content, response, { signal: signal() })
}

/** Sends a page that grows while it is being sent: what follows comes after a mark in it. */
export async function sendGrowing(
  { request, response, signal }: PageExchange,
  page: Html,
  { mark, more }: { mark: string; more: AsyncIterable<Html> },
): Promise<void> {
  response.writeHead(200, {
    'content-type': 'text/html; charset=utf-8',
    'cache-control': 'no-store',
    'x-accel-buffering': 'no',
    vary: 'cookie',
  })
  if (request.method === 'HEAD') {
    response.end()
    return
  }
  const [start = '', end = ''] = page.text.split(mark)
  async function* parts() {
    yield start
    for await (const { text } of more) if (text !== '') yield text
    yield end
  }
  await pipeline(Readable.from(parts()), response, { signal: signal() })
}

/** Sends a page, compressed where the client accepts it; 304 if the client has it. */
export async function sendHtml(
  { request, response }: PageExchange,
  page: Html,
  status: number,
): Promise<void> {
  const bytes = Buffer.from(page.text)
  const entityTag = `W/"${hash('sha256', bytes, 'base64url').slice(0, 22)}"`
  const isForm = request.method === 'POST'
  // Rights can end at any moment, so browsers check each view again. Responses to forms may have secrets: a new token.
  response.setHeader('cache-control', isForm ? 'no-store' : 'private, no-cache')
  response.setHeader('vary', 'cookie, accept-encoding')
  const isCacheable = status === 200 && !isForm
  if (isCacheable) response.setHeader('etag', entityTag)
  const known = (request.headers['if-none-match'] ?? '').split(',').map((tag) => tag.trim())
  if (isCacheable && known.includes(entityTag)) {
    response.writeHead(304).end()
    return
  }
  response.setHeader('content-type', 'text/html; charset=utf-8')
  const isCompressed =
    bytes.length >= compressFromBytes &&
    /\bgzip\b/.test(String(request.headers['accept-encoding'] ?? ''))
  const content = isCompressed ? await compress(bytes, { level: 5 }) : bytes
  if (isCompressed) response.setHeader('content-encoding', 'gzip')
  response.setHeader('content-length', content.length)
  response.writeHead(status)
  response.end(request.method === 'HEAD' ? undefined : content)
}
