import type { Principal } from '../access/principal.ts'
import type { Log } from '../base/log.ts'
import { Problem, problems, toProblem } from '../base/problem.ts'
import { statusOf } from './problem-response.ts'

export type RequestLog = ReturnType<typeof createRequestLog>

/** An answer; `route` is the template of its address, or `other` where there is nothing. */
export type CompletedRequest = { method: string; route: string; status: number; seconds: number }

type Request = CompletedRequest & {
  requestId: string
  url: string
  /** Where it came from. */
  address: string
  /** Undefined for a request without a valid token. */
  principal: Principal | undefined
  /** Whether its client makes it again and again: logged for debugging alone, unless it fails. */
  isPolling: boolean
}

const pathShown = 500

type Options = {
  log: Log
  /** Called when a response has been sent, or its client has gone. */
  onCompleted?: ((answered: CompletedRequest) => void) | undefined
  /** Throws the Problem of a part that is missing. */
  requireParts: () => Promise<void>
}

/** Logs requests: each when its response has been sent, and an error as soon as it occurs. */
export function createRequestLog({ log, onCompleted, requireParts }: Options) {
  return {
    /** Takes what became of a request, when its answer has been sent or its client has gone. */
    record(request: Request): void {
      const { requestId, url, address, principal, isPolling, method, status, seconds } = request
      // The query stays out: a mistaken client may have put a token there.
      const path = url.split('?', 1)[0]?.slice(0, pathShown)
      const level = isPolling && status < 400 ? 'debug' : 'info'
      const ms = Math.round(seconds * 1000)
      const caller = principal && { tokenId: principal.id, username: principal.username }
      log[level]({ requestId, address, ...caller, method, path, status, ms }, 'request')
      onCompleted?.(request)
    },

    /** The Problem that a client gets for an error; one that is not the client's fault is logged. */
    async problemOf(error: unknown, requestId: string): Promise<Problem> {
      const problem = toProblem(error)
      if (statusOf(problem) >= 500 && problem.cause !== undefined) {
        log.error({ err: problem.cause, requestId }, 'a request failed')
      }
      return causeOf(problem, requireParts)
    },
  }
}

/** The Problem behind another: while a part of the service is missing, anything may look damaged. */
export async function causeOf(
  problem: Problem,
  requireParts: () => Promise<void>,
): Promise<Problem> {
  if (problems[problem.code].kind !== 'internal') return problem
  return requireParts().then(
    () => problem,
    (missing) => (missing instanceof Problem ? missing : problem),
  )
}
