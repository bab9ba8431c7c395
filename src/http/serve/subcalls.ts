import type { Principal } from '#access/principal.ts'
import { statusOf } from '../problem-response.ts'
import {
  type JsonRoute,
  type OperationInput,
  type OperationResult,
  SerializedJson,
} from '../route.ts'
import type { JsonCall, JsonCallParts, PerformCall } from './json-call.ts'

type Dependencies = Pick<JsonCallParts, 'routes' | 'requestLog'> & {
  perform: PerformCall
}

/** The call, or the page, whose caller performs another operation. */
type OuterCall = Pick<JsonCall, 'requestId' | 'response' | 'publicOrigin' | 'caller'> & {
  headers?: JsonCall['headers']
  pageCaller?: Principal | undefined
}

/**
 * Performs an operation for the caller of another one, as if it had sent a request: its token is authenticated again,
 * the rate, rights and input are checked, and the call is logged and measured. Throws Problems.
 */
export function createSubcalls({ routes, requestLog, perform }: Dependencies) {
  const operations = new Map(routes.map((route) => [route.operationId, route]))

  return async (
    outer: OuterCall,
    operationId: string,
    { params, query, body, accept = 'application/json', prefer, ifNoneMatch }: OperationInput,
  ): Promise<OperationResult> => {
    const route = operations.get(operationId)
    if (route?.kind !== 'json') throw new Error(`${operationId} is not an operation with JSON`)
    const { requestId, response, publicOrigin, pageCaller } = outer
    const authorization = outer.headers?.authorization
    const caller = { ...outer.caller }
    const url = toUrl(route, params, query)
    const headers: OperationResult['headers'] = {}
    const startedAt = performance.now()
    let status = route.status

    function record(): void {
      const { method, path, isPolling = pageCaller !== undefined } = route as JsonRoute
      const seconds = (performance.now() - startedAt) / 1000
      requestLog.record({
        requestId,
        url,
        ...caller,
        isPolling,
        method,
        route: path,
        status,
        seconds,
      })
    }

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
        readBody: async () => body,
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
      const problem = await requestLog.problemOf(error, requestId)
      status = statusOf(problem)
      throw problem
    } finally {
      record()
    }
  }
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
