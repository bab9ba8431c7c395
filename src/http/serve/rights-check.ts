import type { Principal } from '#access/principal.ts'
import { Problem } from '#base/problem.ts'
import { statusOf } from '../problem-response.ts'
import type { Route } from '../route.ts'
import type { Admit } from './admission.ts'

type Dependencies = { routes: Route[]; admit: Admit }

/**
 * Says whether a caller may perform an operation, by the checks that precede it: permission, visibility and role. What
 * depends on its body is not checked.
 */
export function createRightsCheck({ routes, admit }: Dependencies) {
  const operations = new Map(routes.map((route) => [route.operationId, route]))

  return async (
    principal: Principal,
    operationId: string,
    params: Record<string, string>,
  ): Promise<boolean> => {
    const route = operations.get(operationId)
    if (route?.kind !== 'json') throw new Error(`${operationId} is not an operation with JSON`)
    const { permission, find, allowsLimited } = route
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
}
