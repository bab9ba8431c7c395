import type { IncomingMessage } from 'node:http'
import { Problem } from '#base/problem.ts'

export type BodyLimits = { maxBytes: number; timeoutMs: number }

/**
 * Reads the JSON body of a request; undefined if it has none. Throws a Problem for another content type, malformed UTF-8
 * or JSON, and a body that is too large or too slow.
 */
export async function readJsonBody(request: IncomingMessage, limits: BodyLimits): Promise<unknown> {
  const { 'content-type': contentType, 'content-length': length } = request.headers
  const hasBody = request.headers['transfer-encoding'] !== undefined || Number(length ?? 0) > 0
  if (!hasBody) return undefined
  if (!/^application\/json *(;|$)/i.test(contentType ?? '')) {
    throw new Problem(
      'unsupported_media_type',
      'Send the body as `Content-Type: application/json`.',
    )
  }
  if (request.headers['content-encoding'] !== undefined) {
    throw new Problem('unsupported_media_type', 'Send the body without a Content-Encoding.')
  }
  const bytes = await collectBody(request, limits)
  return bytes.length === 0 ? undefined : parse(bytes)
}

/** Reads the fields of a form. Throws a Problem for another content type, and a body that is too large or too slow. */
export async function readFormBody(
  request: IncomingMessage,
  limits: BodyLimits,
): Promise<URLSearchParams> {
  const type = request.headers['content-type'] ?? ''
  if (!/^application\/x-www-form-urlencoded *(;|$)/i.test(type)) {
    const detail = 'Send the body as `Content-Type: application/x-www-form-urlencoded`.'
    throw new Problem('unsupported_media_type', detail)
  }
  return new URLSearchParams((await collectBody(request, limits)).toString('utf8'))
}

/** Rejects a body whose declared size is too large. */
export function assertDeclared({ headers }: IncomingMessage, limits: BodyLimits): void {
  if (Number(headers['content-length'] ?? 0) > limits.maxBytes) throw tooLarge(limits)
}

/**
 * Whether the whole body is there, so that reading it waits for no client. Node says that a request is complete only after
 * the callbacks of its last bytes.
 */
export function hasArrived({ complete, headers, readableLength }: IncomingMessage): boolean {
  return complete || readableLength >= Number(headers['content-length'])
}

/** Reads a body. Throws a Problem when it is too large or too slow; one that is declared as too large is not waited for. */
export async function collectBody(request: IncomingMessage, limits: BodyLimits): Promise<Buffer> {
  assertDeclared(request, limits)
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let size = 0
    const timer = setTimeout(
      () =>
        end(() =>
          reject(
            new Problem(
              'request_timed_out',
              `The body did not arrive within ${limits.timeoutMs / 1000} seconds.`,
            ),
          ),
        ),
      limits.timeoutMs,
    )
    const onData = (chunk: Buffer) => {
      size += chunk.length
      if (size > limits.maxBytes) end(() => reject(tooLarge(limits)))
      else chunks.push(chunk)
    }
    const onEnd = () => end(() => resolve(Buffer.concat(chunks)))
    const onClose = () => end(() => reject(incomplete()))
    function end(settle: () => void) {
      clearTimeout(timer)
      request.off('data', onData).off('end', onEnd).off('close', onClose)
      settle()
    }
    request.on('data', onData).on('end', onEnd).on('close', onClose).on('error', onClose)
    // Its client went while the request was authenticated: no event follows.
    if (request.destroyed) onClose()
  })
}

function incomplete(): Problem {
  return new Problem('malformed_request', 'The body ended before it was complete.')
}

function tooLarge({ maxBytes }: BodyLimits): Problem {
  return new Problem('body_too_large', `The body may have at most ${maxBytes} bytes.`)
}

function parse(bytes: Buffer): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
  } catch (error) {
    throw new Problem('malformed_request', 'The body is not JSON in UTF-8.', { cause: error })
  }
}
