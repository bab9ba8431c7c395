import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Principal } from '#access/principal.ts'
import { newId } from '#base/ids.ts'
import type { Problem } from '#base/problem.ts'
import type { ClientLimits } from '../connection/client-limits.ts'
import { discardRest, type OpenRequests } from '../connection/connections.ts'
import type { OperationInput, OperationResult } from '../route.ts'
import type { Authenticate, CountInvalid } from './admission.ts'
import type { RequestLog } from './request-log.ts'
import { splitTarget } from './request-target.ts'
import type { createRightsCheck } from './rights-check.ts'
import type { createSubcalls } from './subcalls.ts'

/** A request for a page. Pages know the API only by its operations, so no right is decided twice. */
export type PageExchange = {
  request: IncomingMessage
  response: ServerResponse
  requestId: string
  /** The path as sent, with its percent-encoding. */
  path: string
  query: URLSearchParams
  /** The address of the client. */
  address: string
  /** The origin that the client called, if a trusted proxy says so and there is no SVC_BASE_URL. */
  publicOrigin: () => string | undefined
  /** Aborted when the client disconnects, or the server stops waiting for running requests. */
  signal: () => AbortSignal
  /** Names the caller in the request log, and in limits of connections. Throws `too_many_connections`. */
  identify: (principal: Principal) => void
  /** Performs an operation of the API for the caller of the page. Throws Problems. */
  call: (caller: Principal, operationId: string, input: OperationInput) => Promise<OperationResult>
  /** Whether the caller of the page may perform an operation: decided by the operation itself. */
  may: (caller: Principal, operationId: string, params: Record<string, string>) => Promise<boolean>
  /** Returns the principal of a token that was typed in. Throws `token_invalid` and `too_many_bad_tokens`. */
  authenticate: (token: string) => Promise<Principal>
  /** Counts an invalid login code of the client like an invalid token; returns the Problem. */
  countInvalid: (detail: string) => Problem
  /** Converts an error to the Problem for the client; server errors are logged. */
  problemOf: (error: unknown) => Promise<Problem>
}

/** Serves a page, writes its response, and returns the path template of its route for the log. Never throws. */
export type ServePage = (exchange: PageExchange) => Promise<string>

export type PageServer = {
  serve: ServePage
  /** The Problem of a method that the page at a path does not take; undefined if there is no page. */
  methodProblem: (path: string) => Problem | undefined
}

/** Loads the server of pages; called for the first request. */
export type LoadPages = () => Promise<PageServer>

type Dependencies = {
  load: LoadPages
  /** Whether there are pages besides the documentation. */
  isOn: boolean
  call: ReturnType<typeof createSubcalls>
  may: ReturnType<typeof createRightsCheck>
  authenticate: Authenticate
  countInvalid: CountInvalid
  callerOf: ClientLimits['callerOf']
  publicOriginOf: (request: IncomingMessage) => string | undefined
  openRequests: Pick<OpenRequests, 'controllerOf'>
  requestLog: RequestLog
}

// The addresses of pages: no repository and no endpoint of the API is at one of them.
const pagePath = /^\/(?:$|r\/|-\/|robots\.txt$|favicon\.svg$)/
/** Styles and scripts, which the documentation needs where there are no other pages. */
const assetPath = /^\/(?:-\/assets\/|favicon\.svg$)/

// Login codes are not logged: they are credentials.
const loginCode = /(\/-\/login\/)[^/?]+/

export function isPagePath(path: string): boolean {
  return pagePath.test(path)
}

/** Passes requests for pages to their server before Fastify. */
export function createPageRequests(dependencies: Dependencies) {
  const { load, isOn, call, may, authenticate, countInvalid, callerOf } = dependencies
  const { publicOriginOf, openRequests, requestLog } = dependencies

  let loaded: Promise<PageServer> | undefined

  /** A failure is that of one request: the next one tries again. */
  function loadOnce(): Promise<PageServer> {
    loaded ??= load().catch((error) => {
      loaded = undefined
      throw error
    })
    return loaded
  }

  /** Serves a page and logs its request. Rejects only if no response could be made. */
  async function serve({
    request,
    response,
    requestId,
    path,
    query,
  }: Pick<PageExchange, 'request' | 'response' | 'requestId' | 'path' | 'query'>) {
    const startedAt = performance.now()
    const caller = callerOf(request)
    let route = 'page'
    let abortController: AbortController | undefined
    response.setHeader('x-request-id', requestId)
    // Each operation that a page performs may listen for its end.
    response.setMaxListeners(0)
    response.on('close', () => {
      if (response.writableFinished) discardRest(request)
      const { method = '' } = request
      const url = (request.url ?? '').replace(loginCode, '$1[hidden]')
      const { statusCode: status } = response
      const seconds = (performance.now() - startedAt) / 1000
      requestLog.record({
        requestId,
        url,
        method,
        route,
        status,
        seconds,
        address: caller.address,
        principal: caller.principal,
        isPolling: false,
      })
    })
    const publicOrigin = () => publicOriginOf(request)
    const server = await loadOnce()
    route = await server.serve({
      request,
      response,
      requestId,
      path,
      query,
      address: caller.address,
      publicOrigin,
      signal() {
        abortController ??= openRequests.controllerOf(response)
        return abortController.signal
      },
      identify(principal) {
        caller.principal = principal
        caller.own?.(principal)
      },
      call: (principal, operationId, input) =>
        call(
          { requestId, response, publicOrigin, caller, pageCaller: principal },
          operationId,
          input,
        ),
      may,
      authenticate: (token) => authenticate(token, caller.address),
      countInvalid: (detail) => countInvalid(caller.address, detail),
      problemOf: (error) => requestLog.problemOf(error, requestId),
    })
  }

  const isOfPages = (path: string) => (isOn ? pagePath : assetPath).test(path)

  return {
    /** Returns whether a request is for a page. */
    serve(request: IncomingMessage, response: ServerResponse): boolean {
      const { path, query: text } = splitTarget(request)
      if (!isOfPages(path)) return false
      const query = new URLSearchParams(text)
      const requestId = newId()
      serve({ request, response, requestId, path, query }).catch(async (error) => {
        // A page that cannot be shown at all, since showing a problem is a page, too.
        await requestLog.problemOf(error, requestId)
        response.destroy()
      })
      return true
    },

    /** The Problem of a method that Node does not know, at a page; undefined at other addresses. */
    async methodProblem(url: string): Promise<Problem | undefined> {
      const { path } = splitTarget({ url })
      if (!isOfPages(path)) return undefined
      return loadOnce().then(
        ({ methodProblem }) => methodProblem(path),
        () => undefined,
      )
    },
  }
}
