import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AccessWatch } from '#access/access-watch.ts'
import { repositoryNameIn } from '#access/names.ts'
import { newId } from '#base/ids.ts'
import { Problem } from '#base/problem.ts'
import type { Caller, ClientLimits } from '../connection/client-limits.ts'
import {
  discardRest,
  endUnread,
  expectsContinue,
  type OpenRequests,
} from '../connection/connections.ts'
import { commonHeaders } from '../headers.ts'
import { lfsContentType, problemHeaders, statusOf, toLfsError } from '../problem-response.ts'
import type { Route, StreamRoute } from '../route.ts'
import { assertParameters } from '../validation.ts'
import type { Admit } from './admission.ts'
import { challenge } from './authentication.ts'
import type { RequestLog } from './request-log.ts'
import { splitTarget } from './request-target.ts'
import type { RouteTable } from './route-table.ts'
import { ResponseWatch } from './watch-response.ts'

type Dependencies = {
  findRoutes: RouteTable<Route>
  admit: Admit
  callerOf: ClientLimits['callerOf']
  openRequests: Pick<OpenRequests, 'controllerOf'>
  accessWatch: AccessWatch
  requestLog: RequestLog
}

type Matched = { route: StreamRoute; params: Record<string, string>; query: URLSearchParams }

/**
 * Serves streaming routes before Fastify: Git's requests are small and frequent, and Fastify costs more than
 * such a response. Returns whether a request is for one of these routes.
 */
export function createStreams(dependencies: Dependencies) {
  const { findRoutes, admit, callerOf, openRequests, accessWatch, requestLog } = dependencies

  function match(request: IncomingMessage): Matched | undefined {
    const { path, query: text } = splitTarget(request)
    const address = findRoutes(path)
    const route = address?.byMethod.get(request.method ?? '')
    if (!address || route?.kind !== 'stream') return undefined
    return { route, params: address.params, query: new URLSearchParams(text) }
  }

  async function serve(
    { route, params, query }: Matched,
    caller: Caller,
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<void> {
    const { headers } = request
    const { principal, permission, found } = await admit(request, caller, {
      scheme: 'basic-or-bearer',
      permission: () => route.permissionFor(query),
      find: route.find,
      params,
      allowsLimited: false,
      isRateLimited: false,
      via: 'http',
    })
    assertParameters(query, route.parameters)
    if (route.consumes !== undefined && headers['content-type'] !== route.consumes) {
      throw new Problem('unsupported_media_type', `Send the body as ${route.consumes}.`)
    }
    if (Number(headers['content-length'] ?? 0) > route.maxBytes) {
      throw new Problem('body_too_large', `The body may have at most ${route.maxBytes} bytes.`)
    }
    if (expectsContinue(request)) response.writeContinue()
    const abortController = openRequests.controllerOf(response)
    const exchange = { request, response, query, principal, found, signal: abortController.signal }
    if (!route.isLongLived) return route.serve(exchange)
    // What `find` of these routes returns.
    const access = { principal, permission, repository: found as { id: string } }
    await new ResponseWatch(response, { accessWatch, access, abortController }).guard(
      route.serve(exchange),
    )
  }

  function sendProblem(
    problemFormat: StreamRoute['problemFormat'],
    request: IncomingMessage,
    response: ServerResponse,
    problem: Problem,
  ): void {
    if (response.headersSent || response.destroyed) {
      response.destroy()
      return
    }
    const status = statusOf(problem)
    endUnread(request, response, status)
    if (status === 401) response.setHeader('www-authenticate', challenge('basic-or-bearer'))
    for (const [name, value] of Object.entries(problemHeaders(problem)))
      response.setHeader(name, value)
    const isOfLfs = problemFormat === 'git-lfs'
    // Git shows its user only plain text.
    const text = Buffer.from(isOfLfs ? JSON.stringify(toLfsError(problem)) : `${problem.message}\n`)
    response.setHeader('content-type', isOfLfs ? lfsContentType : 'text/plain; charset=utf-8')
    response.setHeader('content-length', text.length)
    response.writeHead(status).end(text)
  }

  return function serveStream(request: IncomingMessage, response: ServerResponse): boolean {
    const matched = match(request)
    const misplaced = matched ? undefined : misplacedGitRequest(request)
    if (!matched && !misplaced) return false
    const [requestId, startedAt] = [newId(), performance.now()]
    const caller = callerOf(request)
    for (const [name, value] of commonHeaders) response.setHeader(name, value)
    response.setHeader('x-request-id', requestId)
    response.on('close', () => {
      if (response.writableFinished) discardRest(request)
      const { method = '', url = '' } = request
      const seconds = (performance.now() - startedAt) / 1000
      const { statusCode: status } = response
      const { path: route, isPolling = false } = matched?.route ?? { path: 'other' }
      const { address, principal } = caller
      requestLog.record({
        requestId,
        url,
        method,
        route,
        status,
        seconds,
        address,
        principal,
        isPolling,
      })
    })
    const served = matched
      ? serve(matched, caller, request, response)
      : Promise.reject<void>(misplaced)
    served.catch(async (error) => {
      const problem = await requestLog.problemOf(error, requestId)
      sendProblem(matched?.route.problemFormat, request, response, problem)
    })
    return true
  }
}

const listing = '/info/refs'

/** The Problem of a Git client at `/name.git`, where other hosts have repositories. The address of a page leads to the right one. */
function misplacedGitRequest(request: IncomingMessage): Problem | undefined {
  const { path, query } = splitTarget(request)
  if (!path.endsWith(listing) || path.startsWith('/r/') || !query.includes('service=git-'))
    return undefined
  const name = repositoryNameIn(path.slice(0, -listing.length))
  if (name === undefined) return undefined
  const detail = `Git finds repositories of this server at /repos/NAME.git: the path of this one is /repos/${name}.git.`
  return new Problem('route_not_found', detail)
}
