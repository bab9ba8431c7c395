import type { IncomingMessage } from 'node:http'
import { Sensitive } from '../base/sensitive.ts'
import { createBackoff } from '../concurrency/backoff.ts'
import type { Claim, ReleaseBody } from '../runner-api/runner-api.ts'
import {
  describeFault,
  isPassing,
  RefusedRequestError,
  type Request,
  requestBackoff,
  type ServerClient,
} from './server-client.ts'

export type RunConnection = ReturnType<typeof connectRun>

/** The run is not this runner's any more: the server says so, or has not been reached for too long. */
export class RunLostError extends Error {
  override readonly name = 'RunLost'
}

type RunRequest = Pick<Request, 'method' | 'body' | 'timeoutMs'> & {
  /** What follows the address of the run. */
  path: string
  signal?: AbortSignal
}

// By these the server says that the run is not the runner's any more.
const lostStatuses = new Set([401, 404, 409])
// A server that is reached, but has no space left, say, is asked for no longer than this.
const patienceMs = 10 * 60_000
const releaseTimeoutMs = 5000

/**
 * Speaks to the server of one run. What fails in passing is tried again until the lease is surely over; then,
 * and when the server says so, the run is lost, which ends everything that has to do with it.
 */
export function connectRun({ client, claim }: { client: ServerClient; claim: Claim }) {
  const token = new Sensitive(claim.runToken)
  const base = `/runner/runs/${encodeURIComponent(claim.plan.runId)}`
  const lost = new AbortController()
  let timer: NodeJS.Timeout | undefined
  let lastFault = ''
  renew(performance.now())

  // The server counts from when it was asked, which was later than the request was made: here it is over first.
  function renew(askedAt: number): void {
    clearTimeout(timer)
    if (lost.signal.aborted) return
    const restMs = askedAt + claim.leaseSeconds * 1000 - performance.now()
    timer = setTimeout(() => {
      const why = lastFault && ` The last fault: ${lastFault}`
      lost.abort(new RunLostError(`The server was not reached for ${claim.leaseSeconds} s.${why}`))
    }, restMs)
  }

  /** Returns when another try may go better. */
  function judge(error: unknown): void {
    lastFault = describeFault(error)
    if (
      error instanceof RefusedRequestError &&
      error.isOfService &&
      lostStatuses.has(error.status)
    ) {
      lost.abort(new RunLostError(`The server took the run away: ${error.message}`))
      throw lost.signal.reason
    }
    // Something on the way to the server may refuse, too, while the server is away.
    if (error instanceof RefusedRequestError && !error.isOfService) return
    if (!isPassing(error)) throw error
  }

  async function persistently<T>(
    asked: RunRequest,
    ask: (request: Request) => Promise<T>,
  ): Promise<T> {
    const backoff = createBackoff(requestBackoff)
    const signal = asked.signal ? AbortSignal.any([asked.signal, lost.signal]) : lost.signal
    const deadline = performance.now() + patienceMs
    for (;;) {
      signal.throwIfAborted()
      const askedAt = performance.now()
      try {
        const answer = await ask({ ...asked, path: base + asked.path, token, signal })
        renew(askedAt)
        return answer
      } catch (error) {
        signal.throwIfAborted()
        judge(error)
        if (askedAt > deadline) throw error
        await backoff.pause(signal, error instanceof RefusedRequestError ? error.retryAfterMs : 0)
      }
    }
  }

  return {
    /** Aborted, with a RunLost, when the run is not this runner's any more. */
    lost: lost.signal,

    /** Asks for JSON, as often as it takes. Throws what no other try would mend. */
    ask: (asked: RunRequest): Promise<unknown> => persistently(asked, client.ask),

    /** Asks for a stream, as often as it takes until one begins. */
    open: (asked: RunRequest): Promise<IncomingMessage> => persistently(asked, client.open),

    /** Hands the run back to the queue; tried once, for the end of the lease does the same. */
    async release({ reason, isLoss }: ReleaseBody): Promise<void> {
      await client.ask({
        method: 'POST',
        path: `${base}/release`,
        token,
        body: JSON.stringify({ reason: reason.slice(0, 1000), isLoss } satisfies ReleaseBody),
        timeoutMs: releaseTimeoutMs,
        signal: lost.signal,
      })
    },

    /** The run has ended: nobody asks any more. */
    [Symbol.dispose](): void {
      clearTimeout(timer)
      lost.abort(new RunLostError('The run has ended.'))
    },
  }
}
