import { Problem } from '#base/problem.ts'
import type { Route } from '../route.ts'
import type { Address } from './route-table.ts'

/** The methods of an address, for `Allow` (RFC 9110, section 10.2.1); empty for an unknown address. */
export function methodsAt(address: Address<Route> | undefined): string[] {
  if (!address) return []
  const methods = [...address.byMethod.values()].flatMap(({ method, kind }) =>
    method === 'GET' && kind !== 'stream' ? ['GET', 'HEAD'] : [method],
  )
  return [...methods, 'OPTIONS'].sort()
}

/** The Problem of a request to an unknown address, or with a method that the address does not support. */
export function methodProblem(address: Address<Route> | undefined): Problem {
  const allow = methodsAt(address)
  if (allow.length === 0) {
    return new Problem('route_not_found', 'There is nothing at this address; see /docs.')
  }
  return new Problem('method_not_allowed', `This address takes ${allow.join(', ')}.`, { allow })
}
