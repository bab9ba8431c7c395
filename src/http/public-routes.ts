import { Type } from 'typebox'
import { toDocsPage } from './docs-page.ts'
import { named } from './named-schemas.ts'
import { toOpenApi } from './openapi.ts'
import { jsonContentType, type PublicRoute, type Route } from './route.ts'

type Options = {
  version: string
  baseUrl: () => string
  /** The state of the service, in a word. Throws the problem of a part that is missing. */
  health: () => Promise<string>
}

/** All routes, with those added that anybody may read: health and the documentation of all. */
export function withPublicRoutes(routes: Route[], { version, baseUrl, health }: Options): Route[] {
  // Made once: anyone may request them, as often as they like, and each takes long to make.
  const openApi = once(
    () => `${JSON.stringify(toOpenApi({ routes: all, version, baseUrl: baseUrl() }))}\n`,
  )
  const docs = once(() => toDocsPage(all, version))
  const all: Route[] = [
    {
      ...page,
      path: '/health',
      operationId: 'getHealth',
      tag: 'service',
      summary: 'Check the health of the service',
      description:
        '`storage_full` when its disk has so little space left that only reading goes on. 503 when a part of the ' +
        'service is missing, which `code` and `detail` name: the database, or the disk of the data directory.',
      produces: jsonContentType,
      reply: Health,
      problems: ['database_unavailable', 'storage_unavailable'],
      handle: async () => ({ status: await health() }),
    },
    ...routes,
    {
      ...page,
      path: '/openapi.json',
      operationId: 'getOpenApi',
      tag: 'service',
      summary: 'Describe the API as an OpenAPI 3.1 document',
      produces: jsonContentType,
      reply: undefined,
      handle: openApi,
    },
    {
      ...page,
      path: '/docs',
      operationId: 'getDocs',
      tag: 'service',
      summary: 'Describe the API as a page for people',
      produces: 'text/html; charset=utf-8',
      reply: undefined,
      handle: docs,
    },
  ]
  return all
}

const page = { kind: 'public', method: 'GET' } as const satisfies Partial<PublicRoute>

const Health = named(
  'Health',
  Type.Object({ status: Type.String({ description: '`ok` or `storage_full`' }) }),
)

function once(make: () => string): () => string {
  let made: string | undefined
  return () => {
    made ??= make()
    return made
  }
}
