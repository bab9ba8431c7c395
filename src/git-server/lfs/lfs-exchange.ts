import { holds } from '#access/may.ts'
import { deadline } from '#base/timeouts.ts'
import type { PlainSettings } from '#config/settings.ts'
import { collect, limited, readBody } from '#git/protocol/request-body.ts'
import { lfsContentType } from '#http/problem-response.ts'
import type { StreamExchange, StreamRoute } from '#http/route.ts'
import type { Repository } from '#repositories/repositories.ts'
import { lfsRequestInvalid } from './lfs-request.ts'

/** What the routes of the Git LFS API have in common. */
export type LfsRouteBase = Omit<
  StreamRoute,
  'method' | 'path' | 'operationId' | 'summary' | 'permissionFor' | 'serve'
>

// A thousand objects, with space for fields that are unknown.
export const requestMaxBytes = 1024 * 1024

/** What `find` of a route returned. */
export function foundRepository({ found }: Pick<StreamExchange, 'found'>): Repository {
  return found as Repository
}

/** Finds the repository for a caller who may read or write it: the token of an upload need not read. */
export async function findAny({ principal, find }: StreamExchange): Promise<Repository> {
  const found = await find(holds(principal, 'repo:read') ? 'repo:read' : 'repo:write')
  return foundRepository({ found })
}

/**
 * Reads a JSON body, and admits the request again if it was waited for. Throws `lfs_request_invalid`, `body_too_large`
 * and `request_timed_out`.
 */
export async function readJson(
  exchange: Sent & Pick<StreamExchange, 'admitAgain'>,
  settings: BodyLimits,
): Promise<unknown> {
  const isLate = !exchange.request.complete
  const bytes = await readAll(exchange, settings, requestMaxBytes)
  if (isLate) await exchange.admitAgain()
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
  } catch {
    throw lfsRequestInvalid('The body is not valid JSON in UTF-8.')
  }
}

/** Throws `body_too_large` for a request with a body, which otherwise would be read to its end. */
export async function refuseBody(exchange: Sent, settings: BodyLimits): Promise<void> {
  await readAll(exchange, settings, 0)
}

type Sent = Pick<StreamExchange, 'request' | 'signal'>
type BodyLimits = Pick<PlainSettings, 'bodySeconds'>

async function readAll(
  { request, signal }: Sent,
  { bodySeconds }: BodyLimits,
  maxBytes: number,
): Promise<Buffer> {
  using limit = deadline(bodySeconds * 1000, signal)
  const body = readBody(request, limit.signal)
  return collect(limited(body, { maxBytes, signal: limit.signal, onProgress: () => {} }))
}

/** A time in a response: RFC 3339, with a precision of seconds. */
export function toLfsTime(at: number): string {
  return `${new Date(at).toISOString().slice(0, 19)}Z`
}

export function sendLfs(
  { response }: Pick<StreamExchange, 'response'>,
  value: unknown,
  status = 200,
): void {
  const content = JSON.stringify(value)
  response.setHeader('content-type', lfsContentType)
  response.setHeader('content-length', Buffer.byteLength(content))
  response.writeHead(status).end(content)
}
