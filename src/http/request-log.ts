import type { Principal } from '../access/principal.ts'
import type { Log } from '../base/log.ts'
import { type Problem, toProblem } from '../base/problem.ts'
import { statusOf } from './problem-response.ts'

export type RequestLog = ReturnType<typeof createRequestLog>

/** An answer; `route` is the template of its address, or `other` where there is nothing. */
export type Answered = { method: string; route: string; status: number; seconds: number }

type Request = Answered & {
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

/** Tells of requests: each when it has been answered, and of a failure as soon as it is noticed. */
export function createRequestLog(log: Log, onAnswered?: (answered: Answered) => void) {
  return {
    /** Takes what became of a request, when its answer has been sent or its client has gone. */
    tell(request: Request): void {
      const { requestId, url, address, principal, isPolling, method, status, seconds } = request
      // The query stays out: a mistaken client may have put a token there.
      const path = url.split('?', 1)[0]?.slice(0, pathShown)
      const level = isPolling && status < 400 ? 'debug' : 'info'
      const ms = Math.round(seconds * 1000)
      const caller = principal && { tokenId: principal.id, username: principal.username }
      log[level]({ requestId, address, ...caller, method, path, status, ms }, 'request')
      onAnswered?.(request)
    },

    /** What a client is told of an error; what is no fault of the client's is logged. */
    problemOf(error: unknown, requestId: string): Problem {
      const problem = toProblem(error)
      if (statusOf(problem) >= 500 && problem.cause !== undefined) {
        log.error({ err: problem.cause, requestId }, 'a request failed')
      }
      return problem
    },
  }
}
