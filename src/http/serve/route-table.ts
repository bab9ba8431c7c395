import type { IncomingMessage } from 'node:http'
import { Problem } from '#base/problem.ts'
import type { Route } from '../route.ts'

type Template = { method: string; path: string }

type Node<R> = {
  /** What follows a segment with this text, decoded. */
  constants: Map<string, Node<R>>
  /** What follows a segment with any text. */
  parameter?: Node<R>
  /** The routes whose templates end here. */
  ends?: Ends<R>
  /** The routes whose templates take the rest of the path from here on. */
  rest?: Ends<R>
}

/** Routes with the same template, and the names of its parameters with the places of their segments. */
type Ends<R> = { byMethod: Map<string, R>; names: [name: string, at: number][] }

/** The routes that match a path, by method, and the values of their parameters, decoded. */
export type RouteMatch<R> = { byMethod: ReadonlyMap<string, R>; params: Record<string, string> }

export type RouteTable<R> = (path: string) => RouteMatch<R> | undefined

/**
 * The address of a repository in a namespace, as Git and git-lfs have it: with a plain slash in its name, which is one
 * parameter. It ends in `.git`, so no other route of a repository has such a path.
 */
const namespacedGit = /^\/repos\/([^/]+(?<!\.git))\/([^/]+\.git)(?=\/)/

/**
 * Creates the lookup of routes by a path as sent; undefined if none matches, or the percent-encoding is malformed.
 * In a template, `:name` is a segment that is not empty, and `:name*`, at its end, the rest of the path. Of templates that
 * both match, a constant takes precedence over a parameter, for all methods: since there is `POST /repos/import`, `GET
 * /repos/import` is not the repository of that name. Routes with the same template have the same parameter names.
 */
export function createRouteTable<R extends Template>(routes: readonly R[]): RouteTable<R> {
  const root: Node<R> = { constants: new Map() }
  for (const route of routes) add(root, route)
  return (path) => {
    const segments = toSegments(path.replace(namespacedGit, '/repos/$1%2F$2'))
    return segments && find(root, segments, 0)
  }
}

function add<R extends Template>(root: Node<R>, route: R): void {
  const names: Ends<R>['names'] = []
  let node = root
  for (const [at, segment] of route.path.slice(1).split('/').entries()) {
    const name = /^:(\w+)\*?$/.exec(segment)?.[1]
    if (name !== undefined) names.push([name, at])
    if (segment.endsWith('*')) {
      node.rest ??= { byMethod: new Map(), names }
      addTo(node.rest, route, names)
      return
    }
    node = name === undefined ? constantOf(node, segment) : parameterOf(node)
  }
  node.ends ??= { byMethod: new Map(), names }
  addTo(node.ends, route, names)
}

function constantOf<R>({ constants }: Node<R>, segment: string): Node<R> {
  const known = constants.get(segment)
  if (known) return known
  const node: Node<R> = { constants: new Map() }
  constants.set(segment, node)
  return node
}

function parameterOf<R>(node: Node<R>): Node<R> {
  node.parameter ??= { constants: new Map() }
  return node.parameter
}

function addTo<R extends Template>(ends: Ends<R>, route: R, names: Ends<R>['names']): void {
  const { method, path } = route
  if (ends.byMethod.has(method)) throw new Error(`There are two routes ${method} ${path}`)
  if (`${ends.names}` !== `${names}`)
    throw new Error(`Others name the parameters of ${path} differently`)
  ends.byMethod.set(method, route)
}

function toSegments(path: string): string[] | undefined {
  if (!path.startsWith('/')) return undefined
  const segments = path.slice(1).split('/')
  if (!path.includes('%')) return segments
  try {
    return segments.map(decodeURIComponent)
  } catch {
    return undefined
  }
}

function find<R>(node: Node<R>, segments: string[], at: number): RouteMatch<R> | undefined {
  const segment = segments[at]
  if (segment === undefined) return node.ends && toMatch(node.ends, segments)
  const constant = node.constants.get(segment)
  const exact = constant && find(constant, segments, at + 1)
  if (exact) return exact
  if (segment !== '' && node.parameter) {
    const inner = find(node.parameter, segments, at + 1)
    if (inner) return inner
  }
  return node.rest && toMatch(node.rest, [...segments.slice(0, at), segments.slice(at).join('/')])
}

function toMatch<R>({ byMethod, names }: Ends<R>, segments: string[]): RouteMatch<R> {
  const params: Record<string, string> = {}
  for (const [name, at] of names) params[name] = segments[at] ?? ''
  return { byMethod, params }
}

/** Splits the target of a request into its path and query, as sent. */
export function splitTarget({ url: target = '' }: Pick<IncomingMessage, 'url'>): {
  path: string
  query: string
} {
  // The target may be an absolute URL: RFC 9112, section 3.2.2.
  const url = target.startsWith('/') ? target : target.replace(/^https?:\/\/[^/?]*/i, '')
  const end = url.indexOf('?')
  return end === -1
    ? { path: url, query: '' }
    : { path: url.slice(0, end), query: url.slice(end + 1) }
}

/** Whether a path has a percent-encoding that stands for no text. */
export function isMalformed(path: string): boolean {
  return path.startsWith('/') && toSegments(path) === undefined
}

/** The methods of the routes that match, for `Allow` (RFC 9110, section 10.2.1); empty if none does. */
export function methodsAt(match: RouteMatch<Route> | undefined): string[] {
  if (!match) return []
  const methods = [...match.byMethod.values()].flatMap(({ method, kind }) =>
    method === 'GET' && kind !== 'stream' ? ['GET', 'HEAD'] : [method],
  )
  return [...methods, 'OPTIONS'].sort()
}

/** The Problem of a request to an unknown address, or with a method that the address does not support. */
export function problemOfMethod(match: RouteMatch<Route> | undefined): Problem {
  const allow = methodsAt(match)
  if (allow.length === 0) {
    return new Problem('route_not_found', 'There is nothing at this address; see /docs.')
  }
  return new Problem('method_not_allowed', `This address takes ${allow.join(', ')}.`, { allow })
}
