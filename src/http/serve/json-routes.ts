import { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { limitKeyOf } from '#access/principal.ts'
import { createFairLimiter } from '#base/concurrency/fair-limiter.ts'
import { Problem } from '#base/problem.ts'
import type { PlainSettings } from '#config/settings.ts'
import type { Caller } from '../connection/client-limits.ts'
import { expectsContinue } from '../connection/connections.ts'
import { type JsonRoute, jsonContentType, type PublicOrigin, SerializedJson } from '../route.ts'
import { queryOf } from '../validation.ts'
import { assertDeclared, readJsonBody } from './json-body.ts'
import type { JsonCallParts, PerformCall } from './json-call.ts'
import { assertLongLived } from './json-calls.ts'
import { toJson } from './json-slices.ts'

type Dependencies = Pick<JsonCallParts, 'openRequests'> & {
  perform: PerformCall
  settings: Pick<PlainSettings, 'jsonBodyMaxBytes' | 'bodySeconds'>
}

// A body takes several times its size while it is worked on.
const largeBodyLimits = { overall: 4, perKey: 2, waiting: 100, waitMs: 30_000 }

type Exchange = {
  request: FastifyRequest
  reply: FastifyReply
  params: Record<string, string>
  caller: Caller
} & PublicOrigin

/** Serves requests of JSON routes. */
export function createJsonRoutes({ settings, openRequests, perform }: Dependencies) {
  const usualMaxBytes = settings.jsonBodyMaxBytes
  const timeoutMs = settings.bodySeconds * 1000
  const largeBodies = createFairLimiter(largeBodyLimits)

  async function readBody(
    { bodyMaxBytes }: JsonRoute,
    { request, reply, caller }: Exchange,
    permits: DisposableStack,
  ): Promise<unknown> {
    const bodyLimits = { maxBytes: Math.max(usualMaxBytes, bodyMaxBytes ?? 0), timeoutMs }
    // Before `100 Continue`, so that a body that is too large is never sent.
    assertDeclared(request.raw, bodyLimits)
    if (request.method === 'GET' || request.method === 'HEAD') return undefined
    if (bodyMaxBytes !== undefined && mayExceed(request.raw, usualMaxBytes)) {
      const keys = caller.principal ? [limitKeyOf(caller.principal)] : []
      const { signal } = openRequests.controllerOf(reply.raw)
      permits.use(await largeBodies.acquire(keys, signal))
    }
    if (expectsContinue(request.raw)) reply.raw.writeContinue()
    return readJsonBody(request.raw, bodyLimits)
  }

  return async (route: JsonRoute, exchange: Exchange) => {
    const { request, reply, params, caller, publicOrigin } = exchange
    // Held until the response: until then, what came of the body is in memory.
    using permits = new DisposableStack()
    const result = await perform(route, {
      requestId: request.id,
      isHead: request.method === 'HEAD',
      headers: request.headers,
      caller,
      response: reply.raw,
      publicOrigin,
      url: request.url,
      params,
      query: queryOf(request),
      readBody: () => readBody(route, exchange, permits),
      openBody: (contentType) => openBody(contentType, exchange),
      setStatus: (status) => void reply.status(status),
      setType: (type) => void reply.type(type),
      setHeader: (name, value) => void reply.header(name, value),
    })
    if (result instanceof Readable) assertLongLived(route)
    return await sendResult(route, { request, reply, result })
  }
}

function openBody(contentType: string, { request, reply }: Exchange): Readable {
  if (request.headers['content-type'] !== contentType)
    throw new Problem(
      'unsupported_media_type',
      `Send the body as \`Content-Type: ${contentType}\`.`,
    )
  if (expectsContinue(request.raw)) reply.raw.writeContinue()
  return request.raw
}

function mayExceed({ headers }: FastifyRequest['raw'], maxBytes: number): boolean {
  return (
    headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > maxBytes
  )
}

async function sendResult(
  route: JsonRoute,
  { request, reply, result }: { request: FastifyRequest; reply: FastifyReply; result: unknown },
) {
  if (route.reply === undefined || reply.statusCode === 204 || result === undefined)
    return reply.removeHeader('content-type').send()
  if (result instanceof Readable && request.method === 'HEAD') {
    // The stream would not be read, and may be endless.
    result.destroy()
    // Without a body, Fastify would replace a length that the handler has set.
    return reply.hasHeader('content-length') ? reply.send(Readable.from([])) : reply.send()
  }
  if (result instanceof SerializedJson) return reply.send(result.bytes)
  const isJson = route.produces === jsonContentType && !(result instanceof Readable)
  return reply.send(isJson ? await toJson(result) : result)
}
