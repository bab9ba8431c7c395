import { Type } from 'typebox'
import { Problem } from '#base/problem.ts'
import { named } from '#http/named-schemas.ts'
import { PageQuery, paged } from '#http/pages.ts'
import { type FindRequest, nothing, route } from '#http/route.ts'
import { requireFullName } from '#repositories/full-ref-name.ts'
import type { Repositories } from '#repositories/repositories.ts'
import type { RunCaches } from './run-caches.ts'
import { Cache, toCache } from './run-file-schemas.ts'

type Dependencies = { repositories: Repositories; caches: RunCaches }

const problems = ['repository_not_found', 'repository_importing'] as const

/** The routes of caches for people. */
export function runCacheRoutes({ repositories, caches }: Dependencies) {
  const open = ({ principal, permission, params }: FindRequest<{ name: string }>) =>
    repositories.open(principal, params.name, permission)

  return [
    route('GET', '/repos/:name/caches', {
      operationId: 'listCaches',
      tag: 'workflow runs',
      summary: 'List the caches of workflow runs',
      permission: 'workflow:read',
      find: open,
      query: PageQuery,
      reply: { 200: Type.Array(Cache) },
      problems: [...problems],
      handle: async ({ found, query, url, setHeader }) => {
        const page = await paged({ query, url, setHeader }, (wanted) =>
          caches.list(found.id, wanted),
        )
        return page.map(toCache)
      },
    }),
    route('DELETE', '/repos/:name/caches', {
      operationId: 'deleteCaches',
      tag: 'workflow runs',
      summary: 'Delete caches of workflow runs',
      description: 'Deletes those with a key, those of a branch or tag, or all.',
      permission: 'workflow:trigger',
      find: open,
      query: Type.Object({
        key: Type.Optional(
          Type.String({ description: 'only those with this key', minLength: 1, maxLength: 512 }),
        ),
        ref: Type.Optional(
          Type.String({
            description:
              'only those of this branch or tag, by its full name, such as `refs/heads/main`',
            minLength: 1,
            maxLength: 500,
          }),
        ),
      }),
      reply: {
        200: named(
          'DeletedCaches',
          Type.Object({ deleted: Type.Integer({ description: 'how many there were' }) }),
        ),
      },
      problems: [...problems, 'token_limited'],
      handle: async ({ principal, found, query }) => {
        requireFullName(query.ref)
        return { deleted: await caches.remove(principal, found.id, query) }
      },
    }),
    route('DELETE', '/repos/:name/caches/:id', {
      operationId: 'deleteCache',
      tag: 'workflow runs',
      summary: 'Delete a cache of workflow runs',
      permission: 'workflow:trigger',
      find: open,
      reply: { 204: nothing },
      problems: [...problems, 'cache_not_found', 'token_limited'],
      handle: async ({ principal, found, params }) => {
        const { id } = params
        if ((await caches.remove(principal, found.id, { id })) > 0) return
        throw new Problem('cache_not_found', `The repository has no cache with the id "${id}".`)
      },
    }),
  ]
}
