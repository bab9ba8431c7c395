import type { Clock } from '#base/clock.ts'
import { orAborted } from '#base/timeouts.ts'
import { parseRetryAfter } from '../retry-schedule.ts'
import { AttemptTimeoutError, attemptError, attemptSeconds, statusError } from './attempt-error.ts'
import type { createConnections } from './receiver-connections.ts'
import { readResponse, toRecorded } from './receiver-response.ts'

/** The outcome of one attempt. The fault is a sentence; empty when the receiver accepted the delivery. */
export type AttemptOutcome = {
  startedAt: number
  /** Milliseconds until the response headers arrived. */
  duration: number
  /** By name, with signatures hidden. */
  requestHeaders: Record<string, string>
  responseStatus: number | null
  responseHeaders: Record<string, string>
  /** The start of the response body, as text. */
  responseBody: string
  fault: string
  /** Whether the fault is this server's, and says nothing about the receiver. */
  isOwnFault: boolean
  /** The delay that the receiver requested; undefined when it did not. */
  retryAfterMs: number | undefined
}

type Request = {
  url: string
  /** For whom the lookup of the host counts: a user or namespace. */
  lookupKey: string
  headers: Record<string, string>
  body: Uint8Array
  /** Aborts the attempt; `send` then rejects with its reason. */
  signal: AbortSignal
}

type Dependencies = {
  connections: ReturnType<typeof createConnections>
  clock: Clock
  /** Timeout of one attempt, connection included. */
  attemptTimeoutMs?: number
}

/** Makes attempts: one request each, without redirects, within limits of time and size. */
export type Sender = ReturnType<typeof createSender>

export function createSender(dependencies: Dependencies) {
  const { connections, clock, attemptTimeoutMs = attemptSeconds * 1000 } = dependencies

  async function post({ url, lookupKey, headers, body }: Request, signal: AbortSignal) {
    const target = new URL(url)
    const opening = connections.open(target, lookupKey)
    // If the attempt is aborted first, the connection is disposed once it opens.
    const disposeLate = () => opening.then((open) => open[Symbol.dispose]()).catch(() => {})
    const open = await orAborted(opening, signal).catch((error) => {
      void disposeLate()
      throw error
    })
    try {
      const path = target.pathname + target.search
      return {
        open,
        response: await open.pool.request({ method: 'POST', path, headers, body, signal }),
      }
    } catch (error) {
      open[Symbol.dispose]()
      throw error
    }
  }

  return {
    async send(request: Request): Promise<AttemptOutcome> {
      const { signal: stopSignal } = request
      const { hostname } = new URL(request.url)
      const startedAt = clock.now()
      const startedMs = performance.now()
      const timeout = new AbortController()
      using _timer = setTimeout(() => timeout.abort(new AttemptTimeoutError()), attemptTimeoutMs)
      const signal = AbortSignal.any([stopSignal, timeout.signal])
      const duration = () => Math.round(performance.now() - startedMs)
      const requestHeaders = toRecordedRequest(request.headers)
      const about = { startedAt, requestHeaders, isOwnFault: false }
      try {
        const { open, response } = await post(request, signal)
        using _open = open
        const { statusCode, headers } = response
        const fault = statusError(statusCode)
        return {
          ...about,
          duration: duration(),
          responseStatus: statusCode,
          responseHeaders: toRecorded(headers),
          fault,
          retryAfterMs: fault === '' ? undefined : retryAfter(headers['retry-after'], clock.now()),
          responseBody: await readResponse(response.body, stopSignal),
        }
      } catch (error) {
        if (stopSignal.aborted) throw stopSignal.reason
        return {
          ...about,
          duration: duration(),
          responseStatus: null,
          responseHeaders: {},
          responseBody: '',
          fault: attemptError(timeout.signal.aborted ? timeout.signal.reason : error, hostname),
          retryAfterMs: undefined,
        }
      }
    },
  }
}

function retryAfter(value: string | string[] | undefined, now: number): number | undefined {
  return typeof value === 'string' ? parseRetryAfter(value, now) : undefined
}

function toRecordedRequest(headers: Record<string, string>): Record<string, string> {
  const entries = Object.entries(headers)
  return Object.fromEntries(
    entries.map(([name, value]) => [name, name.includes('signature') ? '[hidden]' : value]),
  )
}
