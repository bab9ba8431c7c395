import { Type } from 'typebox'
import { once } from '#base/once.ts'
import { named } from '../named-schemas.ts'
import { jsonContentType, type PublicOrigin, type PublicRoute, type Route } from '../route.ts'
import { toLlmsPage } from './llms-page.ts'
import { toOpenApi } from './openapi.ts'

type Options = {
  version: string
  baseUrl: () => string
  /** Returns the health in one word. Throws the problem of an unavailable part. */
  health: () => Promise<string>
  docs: DocsPage
}

/** Renders the documentation page, which needs other headers than data. */
type DocsPage = {
  headers: Record<string, string>
  render: (routes: Route[], origin: string) => Promise<string>
}

/** Adds the public routes: health, the OpenAPI document and the documentation page. */
export function withPublicRoutes(
  routes: Route[],
  { version, baseUrl, health, docs }: Options,
): Route[] {
  // Created once: they are expensive, and need no authentication.
  const openApi = once(() => toOpenApi({ routes: all, version }))
  const openApiText = once(() => toText(openApi(), baseUrl()))
  const llmsText = once(() => toLlmsPage(all, baseUrl()))
  const all: Route[] = [
    {
      ...page,
      path: '/health',
      operationId: 'getHealth',
      tag: 'service',
      summary: 'Get the health of the service',
      description:
        'The status is `storage_full`, with 200, if the disk has so little space or so few inodes left that only reads ' +
        'are possible: a check must read it. A node of a shared store then responds with 507, since others can write. ' +
        '503 if the database, the data directory or the object store is unavailable; `code` and `detail` say which.',
      produces: jsonContentType,
      reply: Health,
      problems: ['database_unavailable', 'storage_unavailable', 'storage_full'],
      handle: async () => ({ status: await health() }),
    },
    ...routes,
    {
      ...page,
      path: '/openapi.json',
      operationId: 'getOpenApi',
      tag: 'service',
      summary: 'Get the OpenAPI document',
      produces: jsonContentType,
      reply: undefined,
      handle: ({ publicOrigin }: PublicOrigin) => {
        const origin = publicOrigin()
        return origin === undefined ? openApiText() : toText(openApi(), origin)
      },
    },
    {
      ...page,
      path: '/docs',
      operationId: 'getDocs',
      tag: 'service',
      summary: 'Get the documentation page',
      produces: 'text/html; charset=utf-8',
      reply: undefined,
      headers: docs.headers,
      handle: ({ publicOrigin }: PublicOrigin) => docs.render(all, publicOrigin() ?? baseUrl()),
    },
    {
      ...page,
      path: '/llms.txt',
      operationId: 'getLlmsText',
      tag: 'agents',
      summary: 'Get a description of the service for language models',
      description:
        'Markdown in the format of https://llmstxt.org/, with the main facts and all operations.',
      produces: 'text/markdown; charset=utf-8',
      reply: undefined,
      handle: ({ publicOrigin }: PublicOrigin) => {
        const origin = publicOrigin()
        return origin === undefined ? llmsText() : toLlmsPage(all, origin)
      },
    },
  ]
  return all
}

function toText(document: object, url: string): string {
  return `${JSON.stringify({ ...document, servers: [{ url }] })}\n`
}

const page = { kind: 'public', method: 'GET' } as const satisfies Partial<PublicRoute>

const Health = named(
  'Health',
  Type.Object({ status: Type.String({ description: '`ok` or `storage_full`' }) }),
)
