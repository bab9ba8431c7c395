import type { IncomingMessage } from 'node:http'
import { createGunzip } from 'node:zlib'
import { Problem } from '../../base/problem.ts'
import { orAborted } from '../../base/timeouts.ts'
import { chunksOf } from '../process/chunks.ts'

/** The bytes of a Git request, in pieces. */
export type Body = AsyncGenerator<Buffer, void, undefined>

/** The body of a Git request, inflated if it is compressed (Git compresses its larger fetch requests). */
export async function* readBody(request: IncomingMessage, signal: AbortSignal): Body {
  const source = inflated(request)
  try {
    // This leaves the request open: its socket is where the answer goes.
    yield* chunksOf(source, signal)
  } catch (error) {
    if (signal.aborted) throw signal.reason
    if (error instanceof Problem) throw error
    throw new Problem('malformed_git_request', 'The body of the request is damaged.', {
      cause: error,
    })
  } finally {
    // It would hold up what the request still sends.
    if (source !== request) source.destroy()
  }
}

/** All of a body that has arrived whole together with the request, as short ones do; undefined for any other. */
export function readArrived(request: IncomingMessage): Buffer | undefined {
  const size = Number(request.headers['content-length'])
  if (request.readableLength !== size || isEncoded(request)) return undefined
  const body = request.read() ?? Buffer.alloc(0)
  request.resume()
  return body
}

function isEncoded({ headers }: IncomingMessage): boolean {
  return (headers['content-encoding'] ?? 'identity') !== 'identity'
}

function inflated(request: IncomingMessage) {
  if (!isEncoded(request)) return request
  if (!/^(x-)?gzip$/i.test(request.headers['content-encoding'] ?? '')) {
    throw new Problem(
      'unsupported_media_type',
      'The Content-Encoding of a Git request is gzip or none.',
    )
  }
  const gunzip = request.pipe(createGunzip())
  // Whoever reads it learns of a fault; without this line it would also end the program.
  return gunzip.on('error', () => {})
}

type Limits = {
  maxBytes: number
  signal: AbortSignal
  /** Called for every piece that arrives. */
  onProgress: () => void
}

/** A body within limits. Throws a Problem for one that is too large, and a signal's reason. */
export async function* limited(body: Body, { maxBytes, signal, onProgress }: Limits): Body {
  let size = 0
  try {
    for (;;) {
      signal.throwIfAborted()
      const { value: chunk } = await orAborted(body.next(), signal)
      if (!chunk) return
      onProgress()
      size += chunk.length
      if (size > maxBytes) throw tooLarge(maxBytes)
      yield chunk
    }
  } finally {
    // Not waited for: it may be waiting for the client.
    body.return().catch(() => {})
  }
}

/** All of a body. */
export async function collect(body: Body): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of body) chunks.push(chunk)
  return Buffer.concat(chunks)
}

/** A body of given bytes, or of none. */
export async function* bodyOf(...chunks: Buffer[]): Body {
  yield* chunks
}

/** What a client is told whose request has more bytes than it may. */
export function tooLarge(maxBytes: number): Problem {
  return new Problem('body_too_large', `A request of this kind may have at most ${maxBytes} bytes.`)
}
