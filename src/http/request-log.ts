import type { Log } from '../base/log.ts'
import { type Problem, toProblem } from '../base/problem.ts'
import { statusOf } from './problem-response.ts'

export type RequestLog = ReturnType<typeof createRequestLog>

/** An answer; `route` is the template of its address, or `other` where there is nothing. */
export type Answered = { method: string; route: string; status: number; seconds: number }

type Told = Answered & { requestId: string; url: string }

const pathShown = 500

/** Tells of requests: each when it has been answered, and of a failure as soon as it is noticed. */
export function createRequestLog(log: Log, onAnswered?: (answered: Answered) => void) {
  return {
    /** Takes what became of a request, when its answer has been sent or its client has gone. */
    tell({ requestId, url, method, route, status, seconds }: Told): void {
      // The query stays out: a mistaken client may have put a token there.
      const path = url.split('?', 1)[0]?.slice(0, pathShown)
      log.info({ requestId, method, path, status, ms: Math.round(seconds * 1000) }, 'request')
      onAnswered?.({ method, route, status, seconds })
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
