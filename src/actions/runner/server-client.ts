import * as http from 'node:http'
import * as https from 'node:https'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { openBodyConnection } from '#base/body-connection.ts'
import { printable } from '#base/format.ts'
import { pathlessMessage } from '#base/pathless-message.ts'
import type { Sensitive } from '#base/sensitive.ts'
import { trimEndOf } from '#base/trim-end.ts'

export type ServerClient = ReturnType<typeof createServerClient>

/** A request to the server; `path` is relative to its URL. */
export type ServerRequest = {
  method: 'GET' | 'POST' | 'PUT'
  path: string
  token: Sensitive<string>
  /** Serialized JSON. */
  body?: string
  /** A body that is sent as it comes, of the type `contentType`. */
  content?: Readable
  contentType?: string
  /** For the whole request including the response. */
  timeoutMs: number
  signal: AbortSignal
}

/** Takes the next bytes of a body, which are valid until it resolves. */
export type WriteBody = (bytes: Buffer) => Promise<void>

/** The response has an error status. */
export class RefusedRequestError extends Error {
  override readonly name = 'RefusedRequestError'
  readonly status: number
  /** Whether svc sent the response, and not a proxy. */
  readonly isOfService: boolean
  readonly retryAfterMs: number
  /** The code of the problem; empty if svc did not send it. */
  readonly code: string

  constructor(
    status: number,
    detail: string,
    isOfService: boolean,
    { retryAfterMs = 0, code = '' } = {},
  ) {
    super(detail)
    this.status = status
    this.code = code
    this.isOfService = isOfService
    this.retryAfterMs = retryAfterMs
  }
}

/** The response does not conform to the protocol. */
export class UnexpectedResponseError extends Error {
  override readonly name = 'UnexpectedResponseError'
}

/** The pauses between attempts of a request. */
export const requestBackoff = { firstMs: 200, maxMs: 5000 }

const maxResponseBytes = 64 * 1024 * 1024
const maxErrorBytes = 16_384
const errorTimeoutMs = 5000
const continueTimeoutMs = 2000
// Limits a server's Retry-After.
const maxRetryAfterMs = 30_000
const maxDetailLength = 1000
// Shorter than the server's timeout, so that it does not close a connection that is about to be reused.
const idleMs = 4000
const connectTimeoutMs = 10_000
const stallTimeoutMs = 60_000
const transientStatuses = new Set([408, 425, 429])

/** Sends requests to the server: JSON over HTTP with keep-alive, without redirects and proxies. */
export function createServerClient(server: URL) {
  const isSecure = server.protocol === 'https:'
  const options = { keepAlive: true, timeout: idleMs }
  const agent = isSecure ? new https.Agent(options) : new http.Agent(options)
  const base = trimEndOf(server.href, '/')

  async function send(request: ServerRequest): Promise<http.IncomingMessage> {
    const { method, path, token, body, content, contentType = '', signal } = request
    const { promise, resolve, reject } = Promise.withResolvers<http.IncomingMessage>()
    const start = isSecure ? https.request : http.request
    const message = start(`${base}${path}`, {
      method,
      agent,
      signal,
      headers: {
        authorization: `Bearer ${token.reveal()}`,
        ...(body !== undefined && {
          'content-type': 'application/json',
          'content-length': Buffer.byteLength(body),
        }),
        // The server says first whether it wants the content.
        ...(content && { 'content-type': contentType, expect: '100-continue' }),
      },
    })
    message.on('response', resolve).on('error', reject)
    if (content) sendContent(message, content, reject)
    else message.end(body)
    return promise
  }

  async function exchange(request: ServerRequest): Promise<{ status: number; value: unknown }> {
    const signal = AbortSignal.any([request.signal, AbortSignal.timeout(request.timeoutMs)])
    const response = await send({ ...request, signal })
    const status = response.statusCode ?? 0
    if (status < 200 || status > 299) throw await toRefusedRequestError(response)
    const text = await collect(response, maxResponseBytes)
    if (text === '') return { status, value: undefined }
    try {
      return { status, value: JSON.parse(text) }
    } catch {
      throw new UnexpectedResponseError('The response is not JSON.')
    }
  }

  /** Requests a stream; the response may be empty, with the status 204. The timeout covers only its headers. */
  async function open(request: ServerRequest): Promise<http.IncomingMessage> {
    const late = new AbortController()
    const timer = setTimeout(() => late.abort(new Error(noResponse)), request.timeoutMs)
    const signal = AbortSignal.any([request.signal, late.signal])
    const response = await send({ ...request, signal }).finally(() => clearTimeout(timer))
    if (response.statusCode === 200 || response.statusCode === 204) return response
    throw await toRefusedRequestError(response)
  }

  /** Receives a body with less CPU time. False when the response is anything else than a body with its length. */
  async function receiveBytes({ path, token, signal }: ServerRequest, write: WriteBody) {
    using connection = openBodyConnection({
      endpoint: server.origin,
      connectTimeoutMs,
      timeoutMs: stallTimeoutMs,
      toError: (reason) => new Error(`The connection to the server ${reason}.`),
    })
    return await connection.get({
      path: `${base}${path}`.slice(server.origin.length),
      headers: { authorization: `Bearer ${token.reveal()}`, connection: 'close' },
      accept: ({ status, headers }) =>
        / 200(?: |$)/.test(status) ? Number(headers.get('content-length')) : undefined,
      write,
      signal,
    })
  }

  return {
    /** Requests JSON; undefined for an empty response. Throws a RefusedRequestError or a network error. */
    request: async (request: ServerRequest): Promise<unknown> => (await exchange(request)).value,

    /** The same, with the status of the response. */
    exchange,

    open,

    /** Receives a body. */
    async receive(request: ServerRequest, write: WriteBody): Promise<void> {
      if (!isSecure && (await receiveBytes(request, write))) return
      const response = await open(request)
      if (response.statusCode === 204) throw new UnexpectedResponseError('The content is gone.')
      limitStall(response, stallTimeoutMs)
      for await (const chunk of response) await write(chunk)
    },

    close: () => agent.destroy(),
  }
}

/** Sends a body once the server wants it, or says nothing about that for a while, as older proxies do. */
function sendContent(
  message: http.ClientRequest,
  content: Readable,
  onError: (error: unknown) => void,
): void {
  let isDecided = false
  const begin = () => {
    if (!isDecided) void pipeline(content, message).catch(onError)
    isDecided = true
  }
  const timer = setTimeout(begin, continueTimeoutMs)
  message.on('continue', begin)
  message.on('close', () => clearTimeout(timer))
  message.on('response', (response: http.IncomingMessage) => {
    if (!isDecided) content.destroy()
    isDecided = true
    // A connection on which a body is incomplete cannot be used again.
    response.on('end', () => message.writableFinished || message.destroy())
  })
  message.flushHeaders()
}

/** Ends a response with an error when its content stops arriving. */
export function limitStall(response: http.IncomingMessage, timeoutMs: number): void {
  response.setTimeout(timeoutMs, () =>
    response.destroy(new Error('The server has stopped sending data.')),
  )
}

const noResponse = 'The server does not respond.'

/** Whether a retry may succeed. */
export function isWorthRetrying(error: unknown): boolean {
  if (error instanceof UnexpectedResponseError) return false
  if (!(error instanceof RefusedRequestError)) return true
  return error.status >= 500 || transientStatuses.has(error.status)
}

/** Describes an error of a connection in a sentence. */
export function describeError(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  if (error.name === 'TimeoutError') return noResponse
  // An AggregateError for a name with several addresses has no message; its parts do.
  const parts = error instanceof AggregateError ? error.errors : []
  const [first] = parts
  const text = pathlessMessage(error) || (first instanceof Error ? first.message : error.name)
  return printable(text).slice(0, maxDetailLength)
}

async function toRefusedRequestError(response: http.IncomingMessage): Promise<RefusedRequestError> {
  const { statusCode: status = 0, headers } = response
  const isOfService = /^application\/problem\+json/i.test(headers['content-type'] ?? '')
  using _timer = setTimeout(() => response.destroy(), errorTimeoutMs)
  const text = await collect(response, maxErrorBytes).catch(() => '')
  const seconds = Number(headers['retry-after'])
  const problem = isOfService ? problemOf(text) : { detail: '', code: '' }
  const detail =
    problem.detail ||
    (headers.location === undefined
      ? `It responds with the status ${status}.`
      : `It redirects to ${headers.location}.`)
  return new RefusedRequestError(status, printable(detail).slice(0, maxDetailLength), isOfService, {
    retryAfterMs: seconds > 0 ? Math.min(seconds * 1000, maxRetryAfterMs) : 0,
    code: problem.code,
  })
}

function problemOf(text: string): { detail: string; code: string } {
  try {
    const { detail = '', code = '' } = Object(JSON.parse(text))
    return { detail: String(detail), code: String(code) }
  } catch {
    return { detail: '', code: '' }
  }
}

async function collect(response: http.IncomingMessage, maxBytes: number): Promise<string> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of response) {
    size += chunk.length
    if (size > maxBytes) throw new UnexpectedResponseError('The response is too large.')
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}
