import type { JsonRoute, Route } from '../route.ts'

type Link = { operationId: string; parameters: Record<string, string> }

/**
 * Creates the links from a response to the operations on its resource (OpenAPI 3.1, "Link Object"); undefined if there
 * are none. Parameters come from the request, or from the response if it creates the resource.
 */
export function linksOf(route: Route, routes: Route[]): Record<string, Link> | undefined {
  if (route.kind !== 'json' || !route.reply) return undefined
  const path = route.method === 'GET' ? route.path : pathOfCreated(route, routes)
  const own = path === undefined ? undefined : paramsIn(path).at(-1)
  // The path of a list does not end with a parameter.
  if (path === undefined || own === undefined || !path.endsWith(`:${own}`)) return undefined
  const known = paramsIn(route.path)
  const parameters = paramsIn(path).map((name) => {
    const field = fieldOf(route, name)
    const inBody = field === undefined ? undefined : `$response.body#/${field}`
    return [name, known.includes(name) ? `$request.path.${name}` : inBody]
  })
  if (parameters.some(([, value]) => value === undefined)) return undefined
  const linked = routes.filter(
    (other) =>
      other !== route &&
      other.kind === 'json' &&
      (other.path === path || other.path.startsWith(`${path}/`)) &&
      paramsIn(other.path).length === parameters.length,
  )
  const links = linked.map(({ operationId }) => [
    operationId,
    { operationId, parameters: Object.fromEntries(parameters) },
  ])
  return links.length === 0 ? undefined : Object.fromEntries(links)
}

/** The path of the resource that a request creates: its own path with one more parameter, or one with the same schema. */
function pathOfCreated({ path, method, reply }: JsonRoute, routes: Route[]): string | undefined {
  if (method !== 'POST') return undefined
  const below = routes.find(
    (other) =>
      other.path.startsWith(`${path}/:`) && !other.path.slice(path.length + 2).includes('/'),
  )
  const alike = routes.find(
    (other) => other.kind === 'json' && other.method === 'GET' && other.reply === reply,
  )
  return (below ?? alike)?.path
}

/** The field of a response that is a path parameter of its resource. */
function fieldOf({ reply }: JsonRoute, name: string): string | undefined {
  const fields = Object.keys(Object((reply as { properties?: object } | undefined)?.properties))
  return [name, 'id'].find((field) => fields.includes(field))
}

function paramsIn(path: string): string[] {
  return [...path.matchAll(/:(\w+)/g)].map(([, name = '']) => name)
}
