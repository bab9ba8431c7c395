import type { IncomingMessage } from 'node:http'
import { createGunzip } from 'node:zlib'
import { Problem } from '../base/problem.ts'
import { chunksOf } from './chunks.ts'

/** The bytes of a Git request, in pieces. */
export type Body = AsyncGenerator<Buffer, void, undefined>

type Options = {
  maxBytes: number
  signal: AbortSignal
  /** Called for every piece that arrives. */
  onProgress: () => void
}

/** The body of a Git request, inflated if it is compressed (Git compresses its larger fetch requests). */
export async function* readBody(request: IncomingMessage, options: Options): Body {
  const { maxBytes, signal, onProgress } = options
  const source = inflated(request)
  let size = 0
  try {
    // This leaves the request open: its socket is where the answer goes.
    for await (const chunk of chunksOf(source, signal)) {
      onProgress()
      size += chunk.length
      if (size > maxBytes) throw tooLarge(maxBytes)
      yield chunk
    }
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

function inflated(request: IncomingMessage) {
  const encoding = request.headers['content-encoding'] ?? 'identity'
  if (encoding === 'identity') return request
  if (!/^(x-)?gzip$/i.test(encoding)) {
    throw new Problem(
      'unsupported_media_type',
      'The Content-Encoding of a Git request is gzip or none.',
    )
  }
  const gunzip = request.pipe(createGunzip())
  // Whoever reads it learns of a fault; without this line it would also end the program.
  return gunzip.on('error', () => {})
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

function tooLarge(maxBytes: number): Problem {
  return new Problem('body_too_large', `A request of this kind may have at most ${maxBytes} bytes.`)
}
