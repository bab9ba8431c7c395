import type { Principal } from '#access/principal.ts'
import type { Log } from '#base/log.ts'
import { Problem, problems, toProblem } from '#base/problem.ts'
import { statusOf } from '../problem-response.ts'

export type RequestLog = ReturnType<typeof createRequestLog>

/** `route` is the path template, or `other` for an unknown address. */
export type CompletedRequest = { method: string; route: string; status: number; seconds: number }

type Request = CompletedRequest & {
  requestId: string
  url: string
  address: string
  /** Undefined for a request without a valid token. */
  principal: Principal | undefined
  /** Whether clients poll the route: a success is then logged at debug level. */
  isPolling: boolean
}

const pathShown = 500
// Login codes are not logged: they are credentials.
const loginCode = /(\/-\/login\/)[^/]+/

type Options = {
  log: Log
  /** Called when a response has been sent, or its client has disconnected. */
  onCompleted?: ((completed: CompletedRequest) => void) | undefined
  /** Throws the Problem of an unavailable part of the service. */
  requireParts: () => Promise<void>
}

/** Logs each request after its response, and errors as they occur. */
export function createRequestLog({ log, onCompleted, requireParts }: Options) {
  return {
    /** Call it when the response has been sent, or the client has disconnected. */
    record(request: Request): void {
      const { requestId, url, address, principal, isPolling, method, status, seconds } = request
      // Without the query, which may contain a token by mistake.
      const path = url.split('?', 1)[0]?.replace(loginCode, '$1[hidden]').slice(0, pathShown)
      const level = isPolling && status < 400 ? 'debug' : 'info'
      const ms = Math.round(seconds * 1000)
      const caller = principal && { tokenId: principal.id, username: principal.username }
      log[level]({ requestId, address, ...caller, method, path, status, ms }, 'request')
      onCompleted?.(request)
    },

    /** Converts an error to the Problem for the client; server errors are logged. */
    async toLoggedProblem(error: unknown, requestId: string): Promise<Problem> {
      const problem = toProblem(error)
      if (statusOf(problem) >= 500 && problem.cause !== undefined) {
        log.error({ err: problem.cause, requestId }, 'request failed')
      }
      return toUnavailable(problem, requireParts)
    },
  }
}

/** Replaces an internal problem by its cause if a part of the service is unavailable. */
export async function toUnavailable(
  problem: Problem,
  requireParts: () => Promise<void>,
): Promise<Problem> {
  if (problems[problem.code].kind !== 'internal') return problem
  return requireParts().then(
    () => problem,
    (missing) => (missing instanceof Problem ? missing : problem),
  )
}
