import { Problem } from '../base/problem.ts'
import type { Route } from './route.ts'
import { patternOf, precedes } from './route-pattern.ts'

/** The methods of an address, for `Allow` (RFC 9110, section 10.2.1); empty for an unknown address. */
export function methodsAt(routes: Route[], url: string): string[] {
  const path = url.split('?', 1)[0] ?? ''
  const matching = routes.filter((route) => patternOf(route.path).test(path))
  const here = matching.filter((route) => !matching.some((other) => precedes(other, route)))
  const methods = here.flatMap(({ method, kind }) =>
    method === 'GET' && kind !== 'stream' ? ['GET', 'HEAD'] : [method],
  )
  return methods.length === 0 ? [] : [...new Set([...methods, 'OPTIONS'])].sort()
}

/** The Problem of a request to an unknown address, or with a method that the address does not support. */
export function methodProblem(routes: Route[], url: string): Problem {
  const allow = methodsAt(routes, url)
  if (allow.length === 0) {
    return new Problem('route_not_found', 'There is nothing at this address; see /docs.')
  }
  return new Problem('method_not_allowed', `This address takes ${allow.join(', ')}.`, { allow })
}
