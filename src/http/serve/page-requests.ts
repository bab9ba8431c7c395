import type { Principal } from '#access/principal.ts'
import type { Problem } from '#base/problem.ts'
import type { OpenRequests } from '../connection/connections.ts'
import type { OperationInput, OperationResult } from '../route.ts'
import type { Admission } from './admission.ts'
import type { Exchange } from './exchange.ts'
import type { Operations } from './json-operations.ts'
import type { RequestLog } from './request-log.ts'

/** A request for a page. Pages know the API only by its operations, so no right is decided twice. */
export type PageExchange = Omit<Exchange, 'params' | 'caller'> & {
  /** The address of the client. */
  address: string
  /** Aborted when the client disconnects, or the server stops waiting for running requests. */
  signal: () => AbortSignal
  /** Names the caller in the request log, and in limits of connections. Throws `too_many_connections`. */
  identify: (principal: Principal) => void
  /** Performs an operation of the API for the caller of the page. Throws Problems. */
  call: (caller: Principal, operationId: string, input: OperationInput) => Promise<OperationResult>
  /** Whether the caller of the page may perform an operation: decided by the operation itself. */
  may: Operations['may']
  /** Returns the principal of a token that was typed in. Throws `token_invalid` and `too_many_bad_tokens`. */
  authenticate: (token: string) => Promise<Principal>
  /** Counts an invalid login code of the client like an invalid token; returns the Problem. */
  countInvalid: (detail: string) => Problem
  /** Converts an error to the Problem for the client; server errors are logged. */
  problemOf: (error: unknown) => Promise<Problem>
}

export type PageServer = {
  /** Serves a page, writes its response, and returns the path template of its route for the log. Never throws. */
  serve: (exchange: PageExchange) => Promise<string>
  /** The Problem of a method that the page at a path does not take; undefined if there is no page. */
  methodProblem: (path: string) => Problem | undefined
}

type Dependencies = {
  /** Loads the server of pages when the first is requested. */
  load: () => Promise<PageServer>
  /** Whether there are pages besides the documentation. */
  isOn: boolean
  operations: Operations
  admission: Admission
  openRequests: Pick<OpenRequests, 'controllerOf'>
  requestLog: RequestLog
}

// The addresses of pages: no repository and no endpoint of the API is at one of them.
const pagePath = /^\/(?:$|r\/|-\/|robots\.txt$|favicon\.svg$)/
/** Styles and scripts, which the documentation needs where there are no other pages. */
const assetPath = /^\/(?:-\/assets\/|favicon\.svg$)/

export function isPagePath(path: string): boolean {
  return pagePath.test(path)
}

/** Passes requests for pages to their server. */
export function createPageRequests(dependencies: Dependencies) {
  const { load, isOn, operations, admission, openRequests, requestLog } = dependencies
  let loaded: Promise<PageServer> | undefined

  /** A failure is that of one request: the next one tries again. */
  function loadOnce(): Promise<PageServer> {
    loaded ??= load().catch((error) => {
      loaded = undefined
      throw error
    })
    return loaded
  }

  const isPage = (path: string) => (isOn ? pagePath : assetPath).test(path)

  return {
    /** Whether a page, or nothing, is at a path. */
    isPage,

    /** Serves a page, and returns the path template of its route. Rejects only if no response could be made. */
    async serve(exchange: Exchange): Promise<string> {
      const { response, requestId, caller, publicOrigin } = exchange
      let abortController: AbortController | undefined
      // Each operation that a page performs may listen for its end.
      response.setMaxListeners(0)
      const { serve } = await loadOnce()
      return serve({
        ...exchange,
        address: caller.address,
        signal() {
          abortController ??= openRequests.controllerOf(response)
          return abortController.signal
        },
        identify(principal) {
          caller.principal = principal
          caller.own?.(principal)
        },
        call: (principal, operationId, input) =>
          operations.call(
            { requestId, response, publicOrigin, caller, pageCaller: principal },
            operationId,
            input,
          ),
        may: operations.may,
        authenticate: (token) => admission.authenticate(token, caller.address),
        countInvalid: (detail) => admission.countInvalid(caller.address, detail),
        problemOf: (error) => requestLog.toLoggedProblem(error, requestId),
      })
    },

    /** The Problem of a method that Node does not know, at a page; undefined at other addresses. */
    async methodProblem(path: string): Promise<Problem | undefined> {
      if (!isPage(path)) return undefined
      return loadOnce().then(
        ({ methodProblem }) => methodProblem(path),
        () => undefined,
      )
    },
  }
}
