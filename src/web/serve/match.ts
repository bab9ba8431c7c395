import { Problem } from '#base/problem.ts'
import type { PageRoute } from '../page.ts'

/** The route of a page, and what its path names. */
export type PageMatch = { route: PageRoute; params: Record<string, string> }

/**
 * Finds the routes of a request by its path as sent, for a repository without a namespace first. Parameters are decoded,
 * except the rest of a path (`:target*`), which may have bytes that are not UTF-8. Throws `method_not_allowed`; empty if
 * there is no such page.
 */
export function matchPages(
  routes: readonly PageRoute[],
  method: string,
  path: string,
): PageMatch[] {
  const wanted = method === 'HEAD' ? 'GET' : method
  const matches = readingsOf(path).flatMap((reading) => {
    for (const route of routes) {
      const params = methodOf(route) === wanted ? paramsIn(route.path, reading) : undefined
      if (params !== undefined) return [{ route, params }]
    }
    return []
  })
  const problem = matches.length === 0 ? pageMethodProblem(routes, path) : undefined
  if (problem) throw problem
  return matches
}

/**
 * How a path can be read: `/r/acme/log` is a page of the repository `acme`, or the repository `acme/log`. As names of
 * namespaces are not those of repositories, at most one of them exists.
 */
function readingsOf(path: string): string[] {
  const joined = path.replace(/^\/r\/([^/]+)\/([^/]+)/, '/r/$1%2F$2')
  return joined === path ? [path] : [path, joined]
}

/** The Problem of a method that the page at a path does not take; undefined if there is no page. */
export function pageMethodProblem(routes: readonly PageRoute[], path: string): Problem | undefined {
  const here = readingsOf(path).flatMap((reading) =>
    routes.filter((route) => paramsIn(route.path, reading) !== undefined),
  )
  if (here.length === 0) return undefined
  const own = here.map(methodOf)
  const allow = [...new Set([...own, ...(own.includes('GET') ? ['HEAD'] : [])])].sort()
  return new Problem('method_not_allowed', `This page takes ${allow.join(', ')}.`, { allow })
}

function methodOf(route: PageRoute): 'GET' | 'POST' {
  if (route.kind === 'session') return route.method
  return route.kind === 'page' ? 'GET' : 'POST'
}

function paramsIn(template: string, path: string): Record<string, string> | undefined {
  const [wanted, given] = [template.split('/'), path.split('/')]
  const params: Record<string, string> = {}
  for (const [index, segment] of wanted.entries()) {
    const value = given[index]
    if (value === undefined) return undefined
    if (segment.startsWith(':') && segment.endsWith('*')) {
      params[segment.slice(1, -1)] = given.slice(index).join('/')
      return value === '' ? undefined : params
    }
    if (segment.startsWith(':')) {
      const decoded = decode(value)
      if (decoded === undefined || decoded === '') return undefined
      params[segment.slice(1)] = decoded
    } else if (segment !== value) return undefined
  }
  return wanted.length === given.length ? params : undefined
}

function decode(text: string): string | undefined {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}
