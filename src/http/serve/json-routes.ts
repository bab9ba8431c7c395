import type { IncomingMessage, ServerResponse } from 'node:http'
import { finished, Readable } from 'node:stream'
import { limitKeyOf } from '#access/principal.ts'
import { createFairLimiter } from '#base/concurrency/fair-limiter.ts'
import { Problem } from '#base/problem.ts'
import { createTimeSlices } from '#base/time-slices.ts'
import type { PlainSettings } from '#config/settings.ts'
import { endUnread, expectsContinue, type OpenRequests } from '../connection/connections.ts'
import { type JsonRoute, jsonContentType, SerializedJson } from '../route.ts'
import type { Exchange } from './exchange.ts'
import { assertDeclared, hasArrived, readJsonBody } from './json-body.ts'
import type { Operations, ReadBody } from './json-operations.ts'

type Dependencies = Pick<Operations, 'perform'> & {
  openRequests: Pick<OpenRequests, 'controllerOf'>
  settings: Pick<PlainSettings, 'jsonBodyMaxBytes' | 'bodySeconds'>
}

// A body takes several times its size while it is worked on.
const largeBodyLimits = { overall: 4, perKey: 2, waiting: 100, waitMs: 30_000 }

/** Serves requests of JSON routes. */
export function createServeJson({ settings, openRequests, perform }: Dependencies) {
  const usualMaxBytes = settings.jsonBodyMaxBytes
  const timeoutMs = settings.bodySeconds * 1000
  const largeBodies = createFairLimiter(largeBodyLimits)

  async function readBody(
    { bodyMaxBytes }: JsonRoute,
    { request, response, caller }: Exchange,
    permits: DisposableStack,
  ): Promise<ReadBody> {
    const bodyLimits = { maxBytes: Math.max(usualMaxBytes, bodyMaxBytes ?? 0), timeoutMs }
    // Before `100 Continue`, so that a body that is too large is never sent.
    assertDeclared(request, bodyLimits)
    if (request.method === 'GET' || request.method === 'HEAD')
      return { body: undefined, isLate: false }
    let isLate = !hasArrived(request)
    if (bodyMaxBytes !== undefined && mayExceed(request, usualMaxBytes)) {
      const keys = caller.principal ? [limitKeyOf(caller.principal)] : []
      const { signal } = openRequests.controllerOf(response)
      permits.use(await largeBodies.acquire(keys, signal))
      isLate = true
    }
    if (expectsContinue(request)) response.writeContinue()
    return { body: await readJsonBody(request, bodyLimits), isLate }
  }

  return async (route: JsonRoute, exchange: Exchange): Promise<void> => {
    const { request, response } = exchange
    // Held until the response: until then, what came of the body is in memory.
    using permits = new DisposableStack()
    const result = await perform(route, {
      ...exchange,
      isHead: request.method === 'HEAD',
      headers: request.headers,
      url: request.url ?? '',
      readBody: () => readBody(route, exchange, permits),
      openBody: (contentType) => openBody(contentType, exchange),
      setStatus(status) {
        response.statusCode = status
      },
      setType: (type) => void response.setHeader('content-type', type),
      setHeader: (name, value) => void response.setHeader(name, value),
    })
    endUnread(request, response, response.statusCode)
    if (result instanceof Readable) await sendStream(result, exchange)
    else await sendResult(route, response, result)
  }
}

function openBody(contentType: string, { request, response }: Exchange): Readable {
  if (request.headers['content-type'] !== contentType)
    throw new Problem(
      'unsupported_media_type',
      `Send the body as \`Content-Type: ${contentType}\`.`,
    )
  if (expectsContinue(request)) response.writeContinue()
  return request
}

function mayExceed({ headers }: IncomingMessage, maxBytes: number): boolean {
  return (
    headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > maxBytes
  )
}

async function sendResult(
  route: JsonRoute,
  response: ServerResponse,
  result: unknown,
): Promise<void> {
  if (route.reply === undefined || response.statusCode === 204 || result === undefined) {
    response.removeHeader('content-type')
    response.end()
    return
  }
  const content = await toContent(route, result)
  response.setHeader('content-length', Buffer.byteLength(content))
  response.end(content)
}

async function toContent({ produces }: JsonRoute, result: unknown): Promise<string | Buffer> {
  if (result instanceof SerializedJson) return result.bytes
  // Other routes return text or bytes.
  return produces === jsonContentType ? toJson(result) : (result as string | Buffer)
}

/** Sends a stream. The headers are sent with its first bytes, so that an error before them becomes a problem. */
function sendStream(source: Readable, { request, response }: Exchange): Promise<void> {
  if (request.method === 'HEAD') {
    // It would not be read, and may be endless.
    source.destroy()
    response.end()
    return Promise.resolve()
  }
  return new Promise((resolve, reject) => {
    finished(source, { writable: false }, (error) => {
      if (error && !response.destroyed && !response.writableEnded) reject(error)
      else resolve()
    })
    response.on('close', () => source.destroy())
    source.pipe(response)
  })
}

const sliceLength = 100

/** Encodes a result as a line of JSON. A long list is encoded in slices: at once, it would block the event loop. */
export async function toJson(result: unknown): Promise<string | Buffer> {
  if (!Array.isArray(result) || result.length <= sliceLength) return `${JSON.stringify(result)}\n`
  const slices = createTimeSlices()
  const parts: Buffer[] = []
  for (let start = 0; start < result.length; start += sliceLength) {
    const text = JSON.stringify(result.slice(start, start + sliceLength))
    parts.push(Buffer.from((start === 0 ? '[' : ',') + text.slice(1, -1)))
    await slices.rest()
  }
  return Buffer.concat([...parts, Buffer.from(']\n')])
}
