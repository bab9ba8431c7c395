import * as http from 'node:http'
import * as https from 'node:https'
import { printable } from '../base/format.ts'
import { pathlessMessage } from '../base/pathless-message.ts'
import type { Sensitive } from '../base/sensitive.ts'
import { trimEndOf } from '../base/trim-end.ts'

export type ServerClient = ReturnType<typeof createServerClient>

/** A request to the server; `path` is relative to its URL. */
export type ServerRequest = {
  method: 'GET' | 'POST'
  path: string
  token: Sensitive<string>
  /** Serialized JSON. */
  body?: string
  /** For the whole request including the response. */
  timeoutMs: number
  signal: AbortSignal
}

/** The response has an error status. */
export class RefusedRequestError extends Error {
  override readonly name = 'RefusedRequestError'
  readonly status: number
  /** Whether svc sent the response, and not a proxy. */
  readonly isOfService: boolean
  readonly retryAfterMs: number

  constructor(status: number, detail: string, isOfService: boolean, retryAfterMs: number) {
    super(detail)
    this.status = status
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
// Limits a server's Retry-After.
const maxRetryAfterMs = 30_000
const maxDetailLength = 1000
// Shorter than the server's timeout, so that it does not close a connection that is about to be reused.
const idleMs = 4000
const transientStatuses = new Set([408, 425, 429])

/** Sends requests to the server: JSON over HTTP with keep-alive, without redirects and proxies. */
export function createServerClient(server: URL) {
  const isSecure = server.protocol === 'https:'
  const options = { keepAlive: true, timeout: idleMs }
  const agent = isSecure ? new https.Agent(options) : new http.Agent(options)
  const base = trimEndOf(server.href, '/')

  async function send(request: ServerRequest): Promise<http.IncomingMessage> {
    const { method, path, token, body, signal } = request
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
      },
    })
    message.on('response', resolve).on('error', reject)
    message.end(body)
    return promise
  }

  return {
    /** Requests JSON; undefined for an empty response. Throws a RefusedRequestError or a network error. */
    async request(request: ServerRequest): Promise<unknown> {
      const signal = AbortSignal.any([request.signal, AbortSignal.timeout(request.timeoutMs)])
      const response = await send({ ...request, signal })
      const status = response.statusCode ?? 0
      if (status < 200 || status > 299) throw await toRefusedRequestError(response)
      const text = await collect(response, maxResponseBytes)
      if (text === '') return undefined
      try {
        return JSON.parse(text)
      } catch {
        throw new UnexpectedResponseError('The response is not JSON.')
      }
    },

    /** Requests a stream. The timeout covers only the response headers. */
    async open(request: ServerRequest): Promise<http.IncomingMessage> {
      const late = new AbortController()
      const timer = setTimeout(() => late.abort(new Error(noResponse)), request.timeoutMs)
      const signal = AbortSignal.any([request.signal, late.signal])
      const response = await send({ ...request, signal }).finally(() => clearTimeout(timer))
      if (response.statusCode === 200) return response
      throw await toRefusedRequestError(response)
    },

    close: () => agent.destroy(),
  }
}

const noResponse = 'The server does not respond.'

/** Whether a retry may succeed. */
export function isTransient(error: unknown): boolean {
  if (error instanceof UnexpectedResponseError) return false
  if (!(error instanceof RefusedRequestError)) return true
  return error.status >= 500 || transientStatuses.has(error.status)
}

/** What a connection's fault is called. */
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
  const detail =
    (isOfService && detailOf(text)) ||
    (headers.location === undefined
      ? `It responds with the status ${status}.`
      : `It redirects to ${headers.location}.`)
  return new RefusedRequestError(
    status,
    printable(detail).slice(0, maxDetailLength),
    isOfService,
    seconds > 0 ? Math.min(seconds * 1000, maxRetryAfterMs) : 0,
  )
}

function detailOf(text: string): string {
  try {
    return String(Object(JSON.parse(text)).detail ?? '')
  } catch {
    return ''
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
