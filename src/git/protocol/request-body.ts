import type { IncomingMessage } from 'node:http'
import { createGunzip } from 'node:zlib'
import { chunksOf } from '#base/chunks.ts'
import { Problem } from '#base/problem.ts'
import { orAborted } from '#base/timeouts.ts'

/** The body of a Git request, in chunks. */
export type Body = AsyncGenerator<Buffer, void, undefined>

/** Reads the body of a Git request, and decompresses it (Git compresses its larger fetch requests). */
export async function* readBody(request: IncomingMessage, signal: AbortSignal): Body {
  const source = inflated(request)
  try {
    // Leaves the request open: the response needs its socket.
    yield* chunksOf(source, signal)
  } catch (error) {
    if (signal.aborted) throw signal.reason
    if (error instanceof Problem) throw error
    throw new Problem('malformed_git_request', 'The request body is damaged.', {
      cause: error,
    })
  } finally {
    // A paused gunzip would block the rest of the request.
    if (source !== request) source.destroy()
  }
}

/** Puts chunks that were read from a body before the rest of it. */
export async function* prepend(chunks: Buffer[], rest: Body): Body {
  yield* chunks
  yield* rest
}

/** Returns a body that has arrived completely with the request, as short ones do; undefined for any other. */
export function readArrived(request: IncomingMessage): Buffer | undefined {
  const size = Number(request.headers['content-length'])
  if (request.readableLength !== size || isEncoded(request)) return undefined
  const chunks: Buffer[] = []
  // Each read returns what arrived at once.
  for (let chunk = request.read(); chunk !== null; chunk = request.read()) chunks.push(chunk)
  request.resume()
  return chunks.length === 1 ? chunks[0] : Buffer.concat(chunks)
}

function isEncoded({ headers }: IncomingMessage): boolean {
  return (headers['content-encoding'] ?? 'identity') !== 'identity'
}

function inflated(request: IncomingMessage) {
  if (!isEncoded(request)) return request
  if (!/^(x-)?gzip$/i.test(request.headers['content-encoding'] ?? '')) {
    throw new Problem(
      'unsupported_media_type',
      'The Content-Encoding of a Git request must be gzip, or absent.',
    )
  }
  const gunzip = request.pipe(createGunzip())
  // Readers handle errors; without a listener they would end the program.
  return gunzip.on('error', () => {})
}

type Limits = {
  maxBytes: number
  signal: AbortSignal
  /** Called for every chunk. */
  onProgress: () => void
}

/** Limits a body. Throws a Problem when it is too large, and the signal's reason. */
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

/** Reads a whole body. */
export async function collect(body: Body): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of body) chunks.push(chunk)
  return Buffer.concat(chunks)
}

/** Makes a body of chunks. */
export async function* bodyOf(...chunks: Buffer[]): Body {
  yield* chunks
}

/** The Problem for a request that is too large. */
export function tooLarge(maxBytes: number): Problem {
  return new Problem('body_too_large', `This kind of request may have at most ${maxBytes} bytes.`)
}
