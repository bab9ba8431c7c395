import type { AccessWatch } from '#access/access-watch.ts'
import { holds, requirePermission } from '#access/may.ts'
import type { Permission } from '#access/permissions.ts'
import { Problem } from '#base/problem.ts'
import { expectsContinue, type OpenRequests } from '../connection/connections.ts'
import type { StreamRoute } from '../route.ts'
import { assertParameters } from '../validation.ts'
import type { Admit } from './admission.ts'
import { tokenRequired } from './authentication.ts'
import type { Exchange } from './exchange.ts'
import { ResponseWatch } from './watch-response.ts'

type Dependencies = {
  admit: Admit
  openRequests: Pick<OpenRequests, 'controllerOf'>
  accessWatch: AccessWatch
}

const scheme = 'basic-or-bearer'

/** Serves requests of streaming routes, whose handlers write the response. */
export function createServeStream({ admit, openRequests, accessWatch }: Dependencies) {
  return async (route: StreamRoute, exchange: Exchange): Promise<void> => {
    const { request, response, query, params, caller } = exchange
    const { headers } = request
    const admitNow = () =>
      admit(request, caller, {
        scheme,
        permission: () => route.permissionFor(query),
        find: route.find,
        params,
        allowsLimited: false,
        allowsKeys: route.allowsKeys ?? false,
        allowsAnonymous: route.allowsAnonymous ?? false,
        isRateLimited: false,
        via: 'http',
      })
    let admitted = await admitNow()
    const { permission } = admitted
    assertParameters(query, route.parameters)
    if (route.consumes !== undefined && headers['content-type'] !== route.consumes) {
      throw new Problem('unsupported_media_type', `Send the body as ${route.consumes}.`)
    }
    if (Number(headers['content-length'] ?? 0) > route.maxBytes) {
      throw new Problem('body_too_large', `The body may have at most ${route.maxBytes} bytes.`)
    }
    if (expectsContinue(request)) response.writeContinue()
    const abortController = openRequests.controllerOf(response)
    const { signal } = abortController
    const find = async (needed: Permission) => {
      // With a token it might be allowed.
      const { principal } = admitted
      if (headers.authorization === undefined && !holds(principal, needed))
        throw tokenRequired(scheme)
      requirePermission(principal, needed)
      return route.find({ principal, permission: needed, params })
    }
    const { publicOrigin } = exchange
    const served = {
      request,
      response,
      query,
      params,
      publicOrigin,
      get principal() {
        return admitted.principal
      },
      get found() {
        return admitted.found
      },
      find,
      async admitAgain() {
        admitted = await admitNow()
      },
      signal,
    }
    if (!route.isLongLived) return route.serve(served)
    // What `find` of these routes returns.
    const { principal, found } = admitted
    const access = { principal, permission, repository: found as { id: string } }
    const watch = new ResponseWatch(response, { accessWatch, access, abortController })
    if (route.isLongLived === 'body') request.once('end', () => watch.remove())
    await watch.guard(route.serve(served))
  }
}
