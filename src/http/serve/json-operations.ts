import type { IncomingMessage, ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import type { AccessWatch } from '#access/access-watch.ts'
import type { Principal } from '#access/principal.ts'
import { Problem } from '#base/problem.ts'
import type { Caller } from '../connection/client-limits.ts'
import type { OpenRequests } from '../connection/connections.ts'
import { matchesTag } from '../headers.ts'
import { statusOf } from '../problem-response.ts'
import {
  type BodyStream,
  type JsonRoute,
  type OperationInput,
  type OperationResult,
  type PublicOrigin,
  type Route,
  SerializedJson,
} from '../route.ts'
import { checkBody, checkQuery } from '../validation.ts'
import type { Admit } from './admission.ts'
import type { RequestLog } from './request-log.ts'
import { ResponseWatch } from './watch-response.ts'

/** A call of a JSON route: by a request, or by the handler of another route or a page on behalf of its caller. */
type JsonCall = PublicOrigin & {
  requestId: string
  /** Whether only the headers of the response are sent. */
  isHead: boolean
  headers: IncomingMessage['headers']
  /** The caller of a page; undefined for calls with a token. */
  pageCaller?: Principal | undefined
  caller: Caller
  /** The response of the request; its end aborts the call. */
  response: ServerResponse
  /** The path and query. */
  url: string
  params: Record<string, string>
  query: URLSearchParams
  readBody: () => Promise<ReadBody>
  /** Opens a body of another content type than JSON. Throws `unsupported_media_type`. */
  openBody: (contentType: string) => Readable
  setStatus: (status: number) => void
  setType: (type: string) => void
  setHeader: (name: string, value: string) => void
}

/** A body; `isLate` if it was waited for: what its caller may do can have changed meanwhile. */
export type ReadBody = { body: unknown; isLate: boolean }

/** The call, or the page, whose caller performs another operation. */
type OuterCall = Pick<JsonCall, 'requestId' | 'response' | 'publicOrigin' | 'caller'> & {
  headers?: JsonCall['headers']
  pageCaller?: Principal | undefined
}

/** The operations of JSON routes. All throw Problems. */
export type Operations = {
  /** Performs the call of a request: admits the caller, validates query and body, and calls the handler. */
  perform: (route: JsonRoute, call: JsonCall) => Promise<unknown>
  /**
   * Performs an operation for the caller of another one, as if it had sent a request: its token is authenticated again,
   * the rate, rights and input are checked, and the call is logged and measured.
   */
  call: (outer: OuterCall, operationId: string, input: OperationInput) => Promise<OperationResult>
  /**
   * Whether a caller may perform an operation, by the checks that precede it: permission, visibility and role. What
   * depends on its body is not checked.
   */
  may: (caller: Principal, operationId: string, params: Record<string, string>) => Promise<boolean>
}

type Dependencies = {
  routes: Route[]
  admit: Admit
  openRequests: Pick<OpenRequests, 'controllerOf'>
  accessWatch: AccessWatch
  /** Throws a Problem when the disk is nearly full. */
  requireSpace: () => Promise<void>
  requestLog: RequestLog
  /** Aborted when the server stops. */
  stopping: AbortSignal
}

// A DELETE frees space, so it needs none.
const writing = new Set(['POST', 'PUT', 'PATCH'])

export function createOperations(dependencies: Dependencies): Operations {
  const { routes, admit, openRequests, accessWatch, requireSpace, requestLog, stopping } =
    dependencies
  const operations = new Map(routes.map((route) => [route.operationId, route]))

  function routeOf(operationId: string): JsonRoute {
    const route = operations.get(operationId)
    if (route?.kind !== 'json') throw new Error(`${operationId} is not an operation with JSON`)
    return route
  }

  const perform: Operations['perform'] = async (route, called) => {
    const { permission, find } = route
    const { headers, caller, response, params, setHeader, setStatus, setType } = called
    const credentials = called.pageCaller ? { pageCaller: called.pageCaller } : { headers }
    const requirements = {
      scheme: 'bearer',
      permission: () => permission,
      find,
      params,
      allowsLimited: route.allowsLimited,
      isRateLimited: true,
      via: 'api',
    } as const
    let admitted = await admit(credentials, caller, requirements)
    // The results of runs are accepted even when the disk is nearly full.
    if (writing.has(route.method) && permission !== 'run' && !route.isServedWhenFull)
      await requireSpace()
    const query = checkQuery(route.query, called.query)
    let body: unknown
    if (route.consumes === undefined) {
      const read = await called.readBody()
      if (read.isLate)
        admitted = await admit(credentials, caller, { ...requirements, isRateLimited: false })
      body = checkBody(route.body, read.body)
    }
    const { principal, found } = admitted
    setStatus(route.status)
    setType(route.produces)
    let created: AbortController | undefined
    const abortController = () => {
      created ??= openRequests.controllerOf(response)
      return created
    }
    // `find` of a long-lived route returns a repository or nothing.
    const repository = found as { id: string } | undefined
    const watch = route.isLongLived
      ? new ResponseWatch(response, {
          accessWatch,
          access: { principal, permission: admitted.permission, repository },
          abortController: abortController(),
        })
      : undefined
    let entityTag: string | undefined
    const context = {
      principal,
      params,
      query,
      body,
      found,
      url: called.url,
      publicOrigin: called.publicOrigin,
      isHead: called.isHead,
      header: (name: string) => headers[name]?.toString(),
      bodyStream: toBodyStream(route, called),
      setHeader,
      setStatus,
      setType,
      notModified(tag: string) {
        entityTag = `"${tag}"`
        const isMatch = matchesTag(headers['if-none-match'], entityTag)
        if (isMatch) setStatus(304)
        return isMatch
      },
      async admitAgain() {
        await accessWatch.recheck({ principal, permission: admitted.permission })
        await admit({ pageCaller: principal }, { ...caller }, requirements)
      },
      clientSignal: () => abortController().signal,
      waitSignal: () => {
        assertLongLived(route)
        return AbortSignal.any([stopping, abortController().signal])
      },
      subcall: (operationId: string, input: OperationInput) => call(called, operationId, input),
    } satisfies Parameters<JsonRoute['handle']>[0]
    const handled = route.handle(context).then((result) => {
      if (result instanceof Readable) assertLongLived(route)
      // Not on problems, which may follow the call of `notModified`.
      if (entityTag !== undefined) setValidator(route, setHeader, entityTag)
      return result
    })
    return watch ? watch.guard(handled) : handled
  }

  const call: Operations['call'] = async (outer, operationId, input) => {
    const { params, query, body, accept = 'application/json', prefer, ifNoneMatch } = input
    const route = routeOf(operationId)
    const { requestId, response, publicOrigin, pageCaller } = outer
    const authorization = outer.headers?.authorization
    const caller = { ...outer.caller }
    const url = toUrl(route, params, query)
    const headers: OperationResult['headers'] = {}
    const startedAt = performance.now()
    let status = route.status
    try {
      const value = await perform(route, {
        requestId,
        isHead: false,
        headers: {
          accept,
          ...(prefer !== undefined && { prefer }),
          ...(ifNoneMatch !== undefined && { 'if-none-match': ifNoneMatch }),
          ...(authorization !== undefined && { authorization }),
        },
        pageCaller,
        caller,
        response,
        publicOrigin,
        url,
        params,
        query,
        readBody: async () => ({ body, isLate: false }),
        openBody() {
          throw new Error(`${operationId} takes a body that is not JSON`)
        },
        setStatus: (set) => {
          status = set
        },
        setType: (set) => {
          headers['content-type'] = set
        },
        setHeader: (name, set) => {
          headers[name] = set
        },
      })
      return { status, headers, value: value instanceof SerializedJson ? parse(value) : value }
    } catch (error) {
      const problem = await requestLog.toLoggedProblem(error, requestId)
      status = statusOf(problem)
      throw problem
    } finally {
      const { method, path, isPolling = pageCaller !== undefined } = route
      const seconds = (performance.now() - startedAt) / 1000
      const logged = { requestId, url, ...caller, isPolling, method, route: path, status, seconds }
      requestLog.record(logged)
    }
  }

  const may: Operations['may'] = async (principal, operationId, params) => {
    const { permission, find, allowsLimited } = routeOf(operationId)
    const caller = { address: principal.origin?.address ?? '', principal }
    try {
      await admit({ pageCaller: principal }, caller, {
        scheme: 'bearer',
        permission: () => permission,
        find,
        params,
        allowsLimited,
        isRateLimited: false,
        via: 'api',
      })
      return true
    } catch (error) {
      if (error instanceof Problem && statusOf(error) < 500) return false
      throw error
    }
  }

  return { perform, call, may }
}

function toBodyStream({ path, consumes }: JsonRoute, { headers, openBody }: JsonCall): BodyStream {
  const { 'content-length': length } = headers
  return {
    declaredBytes: length === undefined ? undefined : Number(length),
    open() {
      if (consumes === undefined) throw new Error(`${path} takes a JSON body`)
      return openBody(consumes)
    },
  }
}

// Clients check again before each use, since rights can end at any moment.
function setValidator(
  { jsonReply }: JsonRoute,
  setHeader: (name: string, value: string) => void,
  entityTag: string,
): void {
  setHeader('etag', entityTag)
  setHeader('cache-control', 'private, no-cache')
  setHeader('vary', jsonReply ? 'authorization, accept' : 'authorization')
}

function assertLongLived({ method, path, isLongLived }: JsonRoute): void {
  if (!isLongLived) throw new Error(`${method} ${path} is not declared as long-lived`)
}

function parse({ bytes }: SerializedJson): unknown {
  return JSON.parse(bytes.toString('utf8'))
}

function toUrl(
  { path }: JsonRoute,
  params: Record<string, string>,
  query: URLSearchParams,
): string {
  const filled = path.replace(/:(\w+)\*?/g, (_, name) => encodeURIComponent(params[name] ?? ''))
  return query.size === 0 ? filled : `${filled}?${query}`
}
