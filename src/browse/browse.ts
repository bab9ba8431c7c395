import { availableParallelism } from 'node:os'
import type { Clock } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import type { PlainSettings } from '../config/settings.ts'
import type { ObjectPool } from '../git/objects/object-pool.ts'
import type { Git } from '../git/process/git-process.ts'
import { createRefCache } from '../git/refs/ref-cache.ts'
import type { Route } from '../http/route.ts'
import type { Repositories } from '../repositories/repositories.ts'
import { archiveRoutes } from './archive-routes.ts'
import { blameRoutes } from './blame-routes.ts'
import type { BrowseParts } from './browse-parts.ts'
import { createCachedResponses } from './cached-responses.ts'
import { commitRoutes } from './commit-routes.ts'
import { createCommitsById } from './commits-by-id.ts'
import { compareRoutes } from './compare-routes.ts'
import { createGitTasks } from './git-tasks.ts'
import { searchRoutes } from './search-routes.ts'
import { treeRoutes } from './tree-routes.ts'
import { createTrees } from './trees.ts'

/** Reads files, history and commits of repositories for clients without a clone. */
export type Browse = { routes: Route[] }

type Dependencies = {
  git: Git
  pool: ObjectPool
  repositories: Pick<Repositories, 'open'>
  settings: PlainSettings
  clock: Clock
  log: Log
}

const refCacheBytes = 16 * 1024 * 1024

/** Archives have limits of their own: each lasts as long as its client needs to read it. */
function archiveSettingsOf({ maxConcurrentArchives }: PlainSettings) {
  return { maxConcurrentBrowses: maxConcurrentArchives ?? availableParallelism() }
}

export function createBrowse(dependencies: Dependencies): Browse {
  const { git, settings } = dependencies
  const parts: BrowseParts = {
    ...dependencies,
    refCache: createRefCache({ git, maxBytes: refCacheBytes }),
    tasks: createGitTasks({ git, settings }),
    archives: createGitTasks({ git, settings: { ...settings, ...archiveSettingsOf(settings) } }),
    cached: createCachedResponses({ maxBytes: settings.browseCacheBytes }),
    commits: createCommitsById(),
    trees: createTrees(),
  }
  return {
    routes: [
      ...treeRoutes(parts),
      ...commitRoutes(parts),
      ...compareRoutes(parts),
      ...blameRoutes(parts),
      ...searchRoutes(parts),
      ...archiveRoutes(parts),
    ],
  }
}
