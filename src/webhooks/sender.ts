import type { Clock } from '../base/clock.ts'
import { orAborted } from '../base/timeouts.ts'
import { AttemptTimeoutError, attemptError, attemptSeconds, statusError } from './attempt-error.ts'
import type { createConnections } from './receiver-connections.ts'
import { readResponse, toRecorded } from './receiver-response.ts'
import { parseRetryAfter } from './retry-schedule.ts'

/** What came of one attempt. The fault is a sentence; empty when the receiver took it. */
export type AttemptOutcome = {
  startedAt: number
  /** In milliseconds, to the head of the answer. */
  duration: number
  /** By name, with signatures hidden. */
  requestHeaders: Record<string, string>
  responseStatus: number | null
  responseHeaders: Record<string, string>
  /** The first bytes of the answer, as text. */
  responseBody: string
  fault: string
  /** Whether the fault is this server's, and says nothing of the receiver. */
  isOwnFault: boolean
  /** How long the receiver asks not to be sent it again; undefined when it does not say. */
  retryAfterMs: number | undefined
}

type Request = {
  url: string
  headers: Record<string, string>
  body: Uint8Array
  /** Cuts the attempt off; then `send` rejects with its reason. */
  signal: AbortSignal
}

type Dependencies = {
  connections: ReturnType<typeof createConnections>
  clock: Clock
  /** Time for one attempt, connection included. */
  attemptTimeoutMs?: number
}

/** Makes attempts: one request each, without redirects, and within limits of time and size whatever the receiver does. */
export function createSender(dependencies: Dependencies) {
  const { connections, clock, attemptTimeoutMs = attemptSeconds * 1000 } = dependencies

  async function post({ url, headers, body }: Request, signal: AbortSignal) {
    const at = new URL(url)
    const opening = connections.open(at)
    // When it is given up, what opens afterwards is closed.
    const late = () => opening.then((open) => open[Symbol.dispose]()).catch(() => {})
    const open = await orAborted(opening, signal).catch((error) => {
      void late()
      throw error
    })
    try {
      const path = at.pathname + at.search
      return {
        open,
        answer: await open.pool.request({ method: 'POST', path, headers, body, signal }),
      }
    } catch (error) {
      open[Symbol.dispose]()
      throw error
    }
  }

  return {
    async send(request: Request): Promise<AttemptOutcome> {
      const { signal: stop } = request
      const { hostname } = new URL(request.url)
      const startedAt = clock.now()
      const began = performance.now()
      const timeout = new AbortController()
      const timer = setTimeout(() => timeout.abort(new AttemptTimeoutError()), attemptTimeoutMs)
      const signal = AbortSignal.any([stop, timeout.signal])
      const duration = () => Math.round(performance.now() - began)
      const requestHeaders = toRecordedRequest(request.headers)
      const about = { startedAt, requestHeaders, isOwnFault: false }
      try {
        const { open, answer } = await post(request, signal)
        using _open = open
        const { statusCode, headers } = answer
        const fault = statusError(statusCode)
        return {
          ...about,
          duration: duration(),
          responseStatus: statusCode,
          responseHeaders: toRecorded(headers),
          fault,
          retryAfterMs: fault === '' ? undefined : retryAfter(headers['retry-after'], clock.now()),
          responseBody: await readResponse(answer.body, stop),
        }
      } catch (error) {
        if (stop.aborted) throw stop.reason
        return {
          ...about,
          duration: duration(),
          responseStatus: null,
          responseHeaders: {},
          responseBody: '',
          fault: attemptError(timeout.signal.aborted ? timeout.signal.reason : error, hostname),
          retryAfterMs: undefined,
        }
      } finally {
        clearTimeout(timer)
      }
    },
  }
}

function retryAfter(value: string | string[] | undefined, now: number): number | undefined {
  return typeof value === 'string' ? parseRetryAfter(value, now) : undefined
}

function toRecordedRequest(headers: Record<string, string>): Record<string, string> {
  const names = Object.entries(headers)
  return Object.fromEntries(
    names.map(([name, value]) => [name, name.includes('signature') ? '[hidden]' : value]),
  )
}
