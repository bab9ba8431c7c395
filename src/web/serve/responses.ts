import { createHash, hash } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { promisify } from 'node:util'
import { constants, crc32, deflateRaw, gzip } from 'node:zlib'
import { codeOf } from '#base/error-code.ts'
import { acceptsGzip, matchesTag } from '#http/headers.ts'
import type { PageExchange } from '#http/serve/page-requests.ts'
import type { RawResponse, Redirect } from '../page.ts'
import type { Html } from '../render/html.ts'

const compressFromBytes = 4096
const compressibleType = /^(text\/|image\/svg|application\/atom)/
const zip = promisify(gzip)

/** A page: its body between both parts of the frame. */
export type FramedBody = { start: string; body: PageBody; end: string }

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
  { type, content, headers, status }: RawResponse,
): Promise<void> {
  const isComplete = typeof content === 'string' || Buffer.isBuffer(content)
  response.setHeader('cache-control', 'private, no-cache')
  response.setHeader('vary', 'cookie, accept-encoding')
  for (const [name, value] of Object.entries(headers)) response.setHeader(name, value)
  if (status === 304) {
    response.writeHead(304).end()
    return
  }
  if (isComplete && headers.etag === undefined && isKnown(request, response, [content])) return
  response.setHeader('content-type', type)
  if (request.method === 'HEAD') {
    if (content instanceof Readable) content.destroy()
    response.end()
    return
  }
  if (isComplete) {
    const bytes = Buffer.from(content)
    const isCompressed =
      bytes.length >= compressFromBytes && compressibleType.test(type) && acceptsGzip(request)
    const sent = isCompressed ? await zip(bytes) : bytes
    if (isCompressed) response.setHeader('content-encoding', 'gzip')
    response.setHeader('content-length', sent.length)
    response.end(sent)
    return
  }
  await send(content, response, signal())
}

/** Sends a stream until its end, or until the client is gone or has lost access, which is no fault. */
async function send(content: NodeJS.ReadableStream, response: ServerResponse, signal: AbortSignal) {
  await pipeline(content, response, { signal }).catch((error) => {
    if (!response.destroyed || codeOf(error) !== 'ERR_STREAM_PREMATURE_CLOSE') throw error
  })
}

/** Sends a page that grows while it is being sent: what follows comes after its body. */
export async function sendGrowing(
  { request, response, signal }: PageExchange,
  { start, body, end }: FramedBody,
  more: AsyncIterable<Html>,
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
  async function* parts() {
    yield Buffer.concat([Buffer.from(start), body.bytes])
    for await (const { text } of more) if (text !== '') yield text
    yield end
  }
  await send(Readable.from(parts()), response, signal())
}

/** Sends a page, compressed where the client accepts it; 304 if the client has it. */
export async function sendHtml(
  { request, response }: PageExchange,
  { start, body, end }: FramedBody,
  status: number,
): Promise<void> {
  // Rights can end at any moment, so browsers check each view again. What a form has done is shown once: a new token.
  const isForm = request.method === 'POST' || response.hasHeader('set-cookie')
  response.setHeader('cache-control', isForm ? 'no-store' : 'private, no-cache')
  response.setHeader('vary', 'cookie, accept-encoding')
  if (status === 200 && !isForm && isKnown(request, response, [start, body.tag, end])) return
  const parts = [Buffer.from(start), body.bytes, Buffer.from(end)] as const
  const length = sum(parts)
  response.setHeader('content-type', 'text/html; charset=utf-8')
  const isCompressed = length >= compressFromBytes && acceptsGzip(request)
  const content = isCompressed ? await compress(parts, body) : parts
  if (isCompressed) response.setHeader('content-encoding', 'gzip')
  response.setHeader('content-length', sum(content))
  response.writeHead(status)
  if (request.method !== 'HEAD') for (const part of content) response.write(part)
  response.end()
}

/** Sets the entity tag of a response by what it depends on, and sends 304 to a client that has it. Returns whether it has. */
function isKnown(
  request: IncomingMessage,
  response: ServerResponse,
  parts: readonly (string | Buffer)[],
): boolean {
  const sum = createHash('sha256')
  for (const part of parts) sum.update(part).update('\0')
  const entityTag = `W/"${sum.digest('base64url').slice(0, 22)}"`
  response.setHeader('etag', entityTag)
  if (!matchesTag(request.headers['if-none-match'], entityTag)) return false
  response.writeHead(304).end()
  return true
}

function sum(parts: readonly Buffer[]): number {
  return parts.reduce((all, part) => all + part.length, 0)
}

// No name, no time, no flags: RFC 1952, section 2.3.
const gzipHeader = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255])

/** Compresses a page, of which the body may be compressed already. */
async function compress(
  [start, middle, end]: readonly [Buffer, Buffer, Buffer],
  body: PageBody,
): Promise<Buffer[]> {
  const parts = await Promise.all([deflatePart(start), body.deflated(), deflateEnd(end)])
  const trailer = Buffer.alloc(8)
  trailer.writeUInt32LE(crc32(end, crc32(middle, crc32(start))))
  trailer.writeUInt32LE((start.length + middle.length + end.length) % 2 ** 32, 4)
  return [gzipHeader, ...parts, trailer]
}

const deflate = promisify(deflateRaw)
const level = 5

/** The HTML of a page without the frame, which is its reader's own. */
export class PageBody {
  readonly bytes: Buffer
  /** Of the content: bodies with the same tag are the same. */
  readonly tag: string
  #deflated: Promise<Buffer> | undefined

  constructor(html: Html) {
    this.bytes = Buffer.from(html.text)
    this.tag = hash('sha256', this.bytes, 'base64url').slice(0, 22)
  }

  /** Compressed once, to stand between other parts. */
  deflated(): Promise<Buffer> {
    this.#deflated ??= deflatePart(this.bytes)
    return this.#deflated
  }
}

/** Compresses a part of a stream that goes on: it ends at a byte, and refers to nothing before it (RFC 1951). */
function deflatePart(bytes: Buffer): Promise<Buffer> {
  return deflate(bytes, { level, finishFlush: constants.Z_SYNC_FLUSH })
}

/** Compresses the last part of a stream. */
function deflateEnd(bytes: Buffer): Promise<Buffer> {
  return deflate(bytes, { level })
}
