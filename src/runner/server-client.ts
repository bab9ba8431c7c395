import * as http from 'node:http'
import * as https from 'node:https'
import { printable } from '../base/format.ts'
import { pathlessMessage } from '../base/pathless-message.ts'
import type { Sensitive } from '../base/sensitive.ts'
import { trimEndOf } from '../base/trim-end.ts'

export type ServerClient = ReturnType<typeof createServerClient>

/** A request to the server; `path` is what follows the address of the service. */
export type Request = {
  method: 'GET' | 'POST'
  path: string
  token: Sensitive<string>
  /** JSON, as it is sent. */
  body?: string
  /** For all of it, the answer included. */
  timeoutMs: number
  signal: AbortSignal
}

/** An answer that is no success. */
export class RefusedRequestError extends Error {
  override readonly name = 'Refusal'
  readonly status: number
  /** Whether svc itself says so, and not something on the way to it. */
  readonly isOfService: boolean
  readonly retryAfterMs: number

  constructor(status: number, detail: string, isOfService: boolean, retryAfterMs: number) {
    super(detail)
    this.status = status
    this.isOfService = isOfService
    this.retryAfterMs = retryAfterMs
  }
}

/** An answer that nobody who speaks this protocol would give. */
export class UnexpectedResponseError extends Error {
  override readonly name = 'Misunderstanding'
}

/** The pauses between attempts of a request. */
export const requestBackoff = { firstMs: 200, maxMs: 5000 }

const answerMaxBytes = 64 * 1024 * 1024
const faultMaxBytes = 16_384
const faultWaitMs = 5000
// A server may ask for more patience than the backoff has, within reason.
const maxRetryAfterMs = 30_000
const detailMaxLength = 1000
// The server must not close a connection just when it is used again.
const idleMs = 4000
const passingStatuses = new Set([408, 425, 429])

/** Talks to the server: JSON over HTTP on connections that are kept, without redirects and proxies. */
export function createServerClient(server: URL) {
  const isSecure = server.protocol === 'https:'
  const options = { keepAlive: true, timeout: idleMs }
  const agent = isSecure ? new https.Agent(options) : new http.Agent(options)
  const base = trimEndOf(server.href, '/')

  async function send(request: Request): Promise<http.IncomingMessage> {
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
    /** Asks for JSON; undefined for an answer without a body. Throws a Refusal, or what the connection has. */
    async ask(request: Request): Promise<unknown> {
      const signal = AbortSignal.any([request.signal, AbortSignal.timeout(request.timeoutMs)])
      const response = await send({ ...request, signal })
      const status = response.statusCode ?? 0
      if (status < 200 || status > 299) throw await toRefusal(response)
      const text = await collect(response, answerMaxBytes)
      if (text === '') return undefined
      try {
        return JSON.parse(text)
      } catch {
        throw new UnexpectedResponseError('The answer is not JSON.')
      }
    },

    /** Asks for a stream. Who reads it sees to it that it goes on. */
    async open(request: Request): Promise<http.IncomingMessage> {
      const late = new AbortController()
      const timer = setTimeout(() => late.abort(new Error(silence)), request.timeoutMs)
      const signal = AbortSignal.any([request.signal, late.signal])
      const response = await send({ ...request, signal }).finally(() => clearTimeout(timer))
      if (response.statusCode === 200) return response
      throw await toRefusal(response)
    },

    close: () => agent.destroy(),
  }
}

const silence = 'The server does not answer.'

/** Whether another try may go better: the fault is of the connection, or one of a server that says so. */
export function isPassing(error: unknown): boolean {
  if (error instanceof UnexpectedResponseError) return false
  if (!(error instanceof RefusedRequestError)) return true
  return error.status >= 500 || passingStatuses.has(error.status)
}

/** What a connection's fault is called. */
export function describeFault(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  if (error.name === 'TimeoutError') return silence
  // Where a name has several addresses, none of them answered; only the parts say why.
  const parts = error instanceof AggregateError ? error.errors : []
  const [first] = parts
  const text = pathlessMessage(error) || (first instanceof Error ? first.message : error.name)
  return printable(text).slice(0, detailMaxLength)
}

async function toRefusal(response: http.IncomingMessage): Promise<RefusedRequestError> {
  const { statusCode: status = 0, headers } = response
  const isOfService = /^application\/problem\+json/i.test(headers['content-type'] ?? '')
  using _timer = setTimeout(() => response.destroy(), faultWaitMs)
  const text = await collect(response, faultMaxBytes).catch(() => '')
  const seconds = Number(headers['retry-after'])
  const detail =
    (isOfService && detailOf(text)) ||
    (headers.location === undefined
      ? `It answers with the status ${status}.`
      : `It sends elsewhere, to ${headers.location}.`)
  return new RefusedRequestError(
    status,
    printable(detail).slice(0, detailMaxLength),
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
    if (size > maxBytes) throw new UnexpectedResponseError('The answer is too large.')
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}
