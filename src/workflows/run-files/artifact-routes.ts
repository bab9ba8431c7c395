import { Readable } from 'node:stream'
import { Type } from 'typebox'
import { requireRef } from '#access/may.ts'
import { Problem } from '#base/problem.ts'
import { closed } from '#base/schema-options.ts'
import type { PlainSettings } from '#config/settings.ts'
import type { Db } from '#database/schema.ts'
import { toContentDisposition } from '#http/headers.ts'
import { named } from '#http/named-schemas.ts'
import { PageQuery, paged } from '#http/pagination.ts'
import { nothing, route } from '#http/route.ts'
import { requireFullName } from '#repositories/full-ref-name.ts'
import { type OpenRepository, openOfRoute, openProblems } from '#repositories/open-repository.ts'
import type { Repositories, Repository } from '#repositories/repositories.ts'
import { measureArtifacts } from './artifact-store.ts'
import type { Artifacts } from './artifacts.ts'
import { type ArtifactFormat, artifactTypes, type Downloads } from './downloads.ts'
import type { HeldRun } from './held-run.ts'
import { maxCachesPerRepository, measureCaches } from './run-cache-store.ts'
import type { RunCaches } from './run-caches.ts'
import { Artifact, Cache, RunFileUsage, toArtifact, toCache } from './run-file-schemas.ts'

type Dependencies = {
  db: Db
  settings: Pick<PlainSettings, 'artifactsRepositoryMaxBytes' | 'cachesRepositoryMaxBytes'>
  repositories: Repositories
  findRun: (repository: Repository, idOrNumber: string) => Promise<Pick<HeldRun, 'id' | 'ref'>>
  artifacts: Artifacts
  caches: RunCaches
  downloads: Downloads
}

const problems = [...openProblems, 'run_not_found', 'artifact_not_found'] as const

/** The routes of artifacts and caches for users. */
export function artifactAndCacheRoutes(dependencies: Dependencies) {
  const { repositories, caches } = dependencies
  const open = openOfRoute(repositories)
  return [
    ...artifactRoutes(open, dependencies),
    ...cacheRoutes(open, caches),
    ...usageRoutes(open, dependencies),
  ]
}

function artifactRoutes(open: OpenRepository, { findRun, artifacts, downloads }: Dependencies) {
  return [
    route('GET', '/repos/:name/workflows/:id/artifacts', {
      operationId: 'listArtifacts',
      tag: 'workflow runs',
      summary: 'List the artifacts of a workflow run',
      description: 'Lists those of all attempts that have not expired, oldest first.',
      permission: 'workflow:read',
      find: open,
      reply: { 200: Type.Array(Artifact) },
      problems: [...openProblems, 'run_not_found'],
      handle: async ({ found, params }) => {
        const { id } = await findRun(found, params.id)
        return (await artifacts.list(id)).map(toArtifact)
      },
    }),
    route('GET', '/repos/:name/workflows/:id/artifacts/:artifact', {
      operationId: 'getArtifact',
      tag: 'workflow runs',
      summary: 'Download an artifact of a workflow run',
      description:
        'The `artifact` is an id, or a name, which is that of the newest artifact with this name.',
      permission: 'workflow:read',
      find: open,
      isLongLived: true,
      query: Type.Object(
        {
          format: Type.Optional(
            Type.Unsafe<ArtifactFormat>({
              type: 'string',
              enum: Object.keys(artifactTypes),
              description:
                '`tar.gz`, `zip`, `tar` or `tar.zst`, which is how it is stored; by default `tar.gz`',
            }),
          ),
        },
        closed,
      ),
      produces: artifactTypes['tar.gz'],
      otherTypes: [artifactTypes.zip, artifactTypes.tar, artifactTypes['tar.zst']],
      reply: { 200: Type.String({ format: 'binary' }) },
      problems: [...problems, 'artifact_unreadable', 'git_busy', 'storage_full'],
      handle: async ({ principal, found, params, query, isHead, clientSignal, ...context }) => {
        const { format = 'tar.gz' } = query
        const { id } = await findRun(found, params.id)
        const artifact = await artifacts.find(id, params.artifact)
        const { setType, setHeader } = context
        setType(artifactTypes[format])
        setHeader('content-disposition', toContentDisposition(`${artifact.name}.${format}`))
        if (format === 'tar.zst') setHeader('content-length', String(artifact.size))
        if (isHead) return Readable.from([])
        const signal = clientSignal()
        const content = await downloads.openAs(artifact, { format, principal, signal })
        if (content) return content
        throw new Problem('artifact_not_found', `The file of "${artifact.name}" is missing.`)
      },
    }),
    route('DELETE', '/repos/:name/workflows/:id/artifacts/:artifact', {
      operationId: 'deleteArtifact',
      tag: 'workflow runs',
      summary: 'Delete an artifact of a workflow run',
      permission: 'workflow:trigger',
      find: open,
      reply: { 204: nothing },
      problems: [...problems, 'token_limited'],
      handle: async ({ principal, found, params }) => {
        const { id, ref } = await findRun(found, params.id)
        requireRef(principal, ref)
        await artifacts.remove(principal, await artifacts.find(id, params.artifact))
      },
    }),
  ]
}

function cacheRoutes(open: OpenRepository, caches: RunCaches) {
  return [
    route('GET', '/repos/:name/caches', {
      operationId: 'listCaches',
      tag: 'workflow runs',
      summary: 'List the caches of workflow runs',
      permission: 'workflow:read',
      find: open,
      query: PageQuery,
      reply: { 200: Type.Array(Cache) },
      problems: [...openProblems],
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
      problems: [...openProblems, 'token_limited'],
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
      problems: [...openProblems, 'cache_not_found', 'token_limited'],
      handle: async ({ principal, found, params }) => {
        const { id } = params
        if ((await caches.remove(principal, found.id, { id })) > 0) return
        throw new Problem('cache_not_found', `The repository has no cache with the id "${id}".`)
      },
    }),
  ]
}

function usageRoutes(open: OpenRepository, { db, settings }: Dependencies) {
  return [
    route('GET', '/repos/:name/run-files', {
      operationId: 'getRunFileUsage',
      tag: 'workflow runs',
      summary: 'Get the size of the artifacts and caches of a repository',
      description:
        'Beyond the limits, uploads of artifacts are rejected, and the least recently used caches are deleted.',
      permission: 'workflow:read',
      find: open,
      reply: { 200: RunFileUsage },
      problems: [...openProblems],
      async handle({ found: { id } }) {
        const [artifacts, caches] = await Promise.all([
          measureArtifacts(db, id),
          measureCaches(db, id),
        ])
        return {
          artifacts: { ...artifacts, maxBytes: settings.artifactsRepositoryMaxBytes },
          caches: {
            ...caches,
            maxBytes: settings.cachesRepositoryMaxBytes,
            maxCount: maxCachesPerRepository,
          },
        }
      },
    }),
  ]
}
