import type { Route } from '../route.ts'

/** The fragment of a route on the documentation page. */
export function anchorOf({ method, path }: Pick<Route, 'method' | 'path'>): string {
  return `${method}${path}`.replace(/[^A-Za-z]+/g, '-').toLowerCase()
}
