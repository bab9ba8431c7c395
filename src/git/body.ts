import type { IncomingMessage } from 'node:http'
import { createGunzip } from 'node:zlib'
import { Problem } from '../base/problem.ts'
import { chunksOf } from './chunks.ts'
import { firstPacket, type Packet } from './pkt-line.ts'

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

/**
 * The first pkt-line of a body, and the whole body still to be read. Throws `malformed_git_request`
 * for a body that begins with anything else.
 */
export async function peekPacket(
  body: Body,
): Promise<{ first: Packet; whole: Body; size: number }> {
  let head: Buffer = Buffer.alloc(0)
  for (;;) {
    const found = firstPacket(head)
    if (typeof found === 'object') {
      return { first: found.packet, whole: prepend(head, body), size: head.length }
    }
    const { value, done } =
      found === 'incomplete' ? await body.next() : { value: undefined, done: true }
    if (done || !value) {
      await body.return()
      throw new Problem(
        'malformed_git_request',
        "The body does not begin with a line of Git's protocol.",
      )
    }
    head = head.length === 0 ? value : Buffer.concat([head, value])
  }
}

async function* prepend(head: Buffer, rest: Body): Body {
  yield head
  yield* rest
}

function tooLarge(maxBytes: number): Problem {
  return new Problem('body_too_large', `A request of this kind may have at most ${maxBytes} bytes.`)
}
