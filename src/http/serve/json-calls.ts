import { matchesTag } from '../entity-tag.ts'
import type { BodyStream, JsonRoute, OperationInput } from '../route.ts'
import { checkBody, checkQuery } from '../validation.ts'
import type { JsonCall, JsonCallParts, PerformCall } from './json-call.ts'
import { createSubcalls } from './subcalls.ts'
import { ResponseWatch } from './watch-response.ts'

// A DELETE frees space, so it needs none.
const writing = new Set(['POST', 'PUT', 'PATCH'])

/** Performs calls of JSON routes: admits the caller, validates query and body, and calls the handler. */
export function createJsonCalls(parts: JsonCallParts): PerformCall {
  const { admit, openRequests, accessWatch, requireSpace, stopping } = parts
  const subcall = createSubcalls({ ...parts, perform })

  async function perform(route: JsonRoute, call: JsonCall): Promise<unknown> {
    const { permission, find } = route
    const { headers, caller, response, params, publicOrigin, setHeader, setStatus, setType } = call
    const credentials = call.pageCaller ? { pageCaller: call.pageCaller } : { headers }
    const admitted = await admit(credentials, caller, {
      scheme: 'bearer',
      permission: () => permission,
      find,
      params,
      allowsLimited: route.allowsLimited,
      isRateLimited: true,
      via: 'api',
    })
    const { principal, found } = admitted
    // The results of runs are accepted even when the disk is nearly full.
    if (writing.has(route.method) && permission !== 'run' && !route.isServedWhenFull)
      await requireSpace()
    const query = checkQuery(route.query, call.query)
    const body =
      route.consumes === undefined ? checkBody(route.body, await call.readBody()) : undefined
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
      url: call.url,
      publicOrigin,
      isHead: call.isHead,
      header: (name: string) => headers[name]?.toString(),
      bodyStream: toBodyStream(route, call),
      setHeader,
      setStatus,
      setType,
      notModified(tag: string) {
        entityTag = `"${tag}"`
        const isMatch = matchesTag(headers['if-none-match'], entityTag)
        if (isMatch) setStatus(304)
        return isMatch
      },
      clientSignal: () => abortController().signal,
      waitSignal: () => {
        assertLongLived(route)
        return AbortSignal.any([stopping, abortController().signal])
      },
      subcall: (operationId: string, input: OperationInput) => subcall(call, operationId, input),
    } satisfies Parameters<JsonRoute['handle']>[0]
    const handled = route.handle(context).then((result) => {
      // Not on problems, which may follow the call of `notModified`.
      if (entityTag !== undefined) setValidator(route, setHeader, entityTag)
      return result
    })
    return watch ? watch.guard(handled) : handled
  }

  return perform
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

export function assertLongLived({ method, path, isLongLived }: JsonRoute): void {
  if (!isLongLived) throw new Error(`${method} ${path} is not declared as long-lived`)
}
