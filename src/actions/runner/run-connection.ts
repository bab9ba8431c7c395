import type { IncomingMessage } from 'node:http'
import type { Readable } from 'node:stream'
import { createBackoff } from '#base/concurrency/backoff.ts'
import { Sensitive } from '#base/sensitive.ts'
import type { ReleaseBody } from '../runner-api/runner-api.ts'
import { openLease, type RunLease, threadsNow } from './lease.ts'
import {
  describeError,
  isWorthRetrying,
  RefusedRequestError,
  requestBackoff,
  type ServerClient,
  type ServerRequest,
  UnexpectedResponseError,
  type WriteBody,
} from './server-client.ts'

export type RunConnection = ReturnType<typeof connectRun>

/** The part of a claim that authorizes requests about the run. */
export type LeasedRun = { runId: string; claimToken: string; leaseSeconds: number }

/** The run no longer belongs to this runner: the server says so, or the lease has expired. */
export class RunLostError extends Error {
  override readonly name = 'RunLostError'
}

type RunRequest = Pick<
  ServerRequest,
  'method' | 'body' | 'content' | 'contentType' | 'timeoutMs'
> & {
  /** Relative to the URL of the run. */
  path: string
  signal?: AbortSignal
}

const lostStatuses = new Set([401, 404, 409])
/** Problems with these statuses that concern something else than the run. */
const otherCodes = new Set(['artifact_not_found', 'artifact_exists'])
// For a server that responds with errors, for instance because its disk is full.
const retryTimeoutMs = 10 * 60_000
const releaseTimeoutMs = 5000

type Options = { client: ServerClient; held: LeasedRun; lease?: RunLease }

/**
 * The connection to the server for one run. Transient errors are retried until the lease has expired. Then, or when the
 * server says so, the run is lost, which aborts everything for it.
 */
export function connectRun({ client, held, lease = openLease(held.leaseSeconds) }: Options) {
  const { leaseSeconds } = held
  const token = new Sensitive(held.claimToken)
  const base = `/runner/runs/${encodeURIComponent(held.runId)}`
  const lost = new AbortController()
  let timer: NodeJS.Timeout | undefined
  let lastError = ''
  watchLease()

  function renew(sentAt: number): void {
    lease.renew(sentAt)
    watchLease()
  }

  // Another thread may have renewed the lease meanwhile.
  function watchLease(): void {
    clearTimeout(timer)
    if (lost.signal.aborted) return
    const leftMs = lease.left()
    if (leftMs > 0) timer = setTimeout(watchLease, leftMs)
    else {
      const why = lastError && ` The last error: ${lastError}`
      lost.abort(new RunLostError(`The server was not reached for ${leaseSeconds} s.${why}`))
    }
  }

  function toOwn(request: RunRequest): ServerRequest {
    const signal = request.signal ? AbortSignal.any([request.signal, lost.signal]) : lost.signal
    return { ...request, path: base + request.path, token, signal }
  }

  /** Throws errors that a retry cannot solve. */
  function assertRetryable(error: unknown): void {
    lastError = describeError(error)
    if (
      error instanceof RefusedRequestError &&
      error.isOfService &&
      lostStatuses.has(error.status) &&
      !otherCodes.has(error.code)
    ) {
      lost.abort(new RunLostError(`The server took the run away: ${error.message}`))
      throw lost.signal.reason
    }
    // A proxy may reject requests while the server is down.
    if (error instanceof RefusedRequestError && !error.isOfService) return
    if (!isWorthRetrying(error)) throw error
  }

  async function withRetries<T>(
    request: RunRequest,
    send: (request: ServerRequest) => Promise<T>,
  ): Promise<T> {
    const backoff = createBackoff(requestBackoff)
    const own = toOwn(request)
    const { signal } = own
    const deadline = threadsNow() + retryTimeoutMs
    for (;;) {
      signal.throwIfAborted()
      const sentAt = threadsNow()
      try {
        const response = await send(own)
        renew(sentAt)
        return response
      } catch (error) {
        signal.throwIfAborted()
        assertRetryable(error)
        if (sentAt > deadline) throw error
        await backoff.pause(signal, error instanceof RefusedRequestError ? error.retryAfterMs : 0)
      }
    }
  }

  return {
    /** Aborted with a RunLostError when the run no longer belongs to this runner. */
    lost: lost.signal,

    lease,

    /** Requests JSON, with retries. */
    request: (request: RunRequest): Promise<unknown> => withRetries(request, client.request),

    /** Requests a stream, with retries until one begins. */
    open: (request: RunRequest): Promise<IncomingMessage> => withRetries(request, client.open),

    /** Receives a body, with retries until it begins. */
    async receive(request: RunRequest, write: WriteBody): Promise<void> {
      let hasBegun = false
      const begin: WriteBody = (bytes) => {
        hasBegun = true
        return write(bytes)
      }
      await withRetries(request, async (own) => {
        try {
          await client.receive(own, begin)
        } catch (error) {
          if (hasBegun) throw new UnexpectedResponseError(describeError(error), { cause: error })
          throw error
        }
      })
    },

    /** Sends a stream, once: it cannot be repeated. */
    async upload(request: RunRequest & { content: Readable }) {
      const own = toOwn(request)
      try {
        return await client.exchange(own)
      } catch (error) {
        own.signal.throwIfAborted()
        assertRetryable(error)
        throw error
      }
    },

    /** Returns the run to the queue. Tried once, because the end of the lease has the same effect. */
    async release({ reason, isLoss }: ReleaseBody): Promise<void> {
      await client.request({
        method: 'POST',
        path: `${base}/release`,
        token,
        body: JSON.stringify({ reason: reason.slice(0, 1000), isLoss } satisfies ReleaseBody),
        timeoutMs: releaseTimeoutMs,
        signal: lost.signal,
      })
    },

    [Symbol.dispose](): void {
      clearTimeout(timer)
      lost.abort(new RunLostError('The run has ended.'))
    },
  }
}
