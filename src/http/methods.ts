import type { Route } from './route.ts'
import { patternOf } from './route-pattern.ts'

/** The methods that an address has, for `Allow` (RFC 9110, section 10.2.1); none for one where nothing is. */
export function methodsAt(routes: Route[], url: string): string[] {
  const path = url.split('?', 1)[0] ?? ''
  const here = routes.filter((route) => patternOf(route.path).test(path))
  const methods = here.flatMap(({ method, kind }) =>
    method === 'GET' && kind !== 'stream' ? ['GET', 'HEAD'] : [method],
  )
  return methods.length === 0 ? [] : [...new Set([...methods, 'OPTIONS'])].sort()
}
