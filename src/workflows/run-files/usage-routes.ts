import type { PlainSettings } from '#config/settings.ts'
import type { Db } from '#database/schema.ts'
import { route } from '#http/route.ts'
import type { Repositories } from '#repositories/repositories.ts'
import { measureArtifacts } from './artifact-store.ts'
import { maxCachesPerRepository, measureCaches } from './run-cache-store.ts'
import { RunFileUsage } from './run-file-schemas.ts'

type Dependencies = {
  db: Db
  repositories: Repositories
  settings: Pick<PlainSettings, 'artifactsRepositoryMaxBytes' | 'cachesRepositoryMaxBytes'>
}

/** The route of the space that artifacts and caches take. */
export function usageRoutes({ db, repositories, settings }: Dependencies) {
  const { artifactsRepositoryMaxBytes, cachesRepositoryMaxBytes } = settings

  return [
    route('GET', '/repos/:name/run-files', {
      operationId: 'getRunFileUsage',
      tag: 'workflow runs',
      summary: 'Get the size of the artifacts and caches of a repository',
      description:
        'Beyond the limits, uploads of artifacts are rejected, and the least recently used caches are deleted.',
      permission: 'workflow:read',
      find: ({ principal, permission, params }) =>
        repositories.open(principal, params.name, permission),
      reply: { 200: RunFileUsage },
      problems: ['repository_not_found', 'repository_importing'],
      async handle({ found: { id } }) {
        const [artifacts, caches] = await Promise.all([
          measureArtifacts(db, id),
          measureCaches(db, id),
        ])
        return {
          artifacts: { ...artifacts, maxBytes: artifactsRepositoryMaxBytes },
          caches: {
            ...caches,
            maxBytes: cachesRepositoryMaxBytes,
            maxCount: maxCachesPerRepository,
          },
        }
      },
    }),
  ]
}
