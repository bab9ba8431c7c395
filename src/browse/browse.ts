import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import type { Clock } from '#base/clock.ts'
import type { Log } from '#base/log.ts'
import type { PlainSettings } from '#config/settings.ts'
import type { Db } from '#database/schema.ts'
import type { ObjectPool } from '#git/objects/object-pool.ts'
import { type Git, withOptions } from '#git/process/git-process.ts'
import { createReusedProcesses } from '#git/process/reused-processes.ts'
import { createRefCache } from '#git/refs/ref-cache.ts'
import type { Route } from '#http/route.ts'
import { isThere } from '#repositories/directories/deleted-directories.ts'
import type { Directories } from '#repositories/directories/directories.ts'
import type { LfsObjects } from '#repositories/lfs-objects.ts'
import { recheckAccess } from '#repositories/recheck-access.ts'
import type { Repositories } from '#repositories/repositories.ts'
import { createRevisionFinder } from '#repositories/revision-finder.ts'
import type { Protections } from '#repositories/rights/protections.ts'
import type { Store } from '#repositories/store/store.ts'
import { activityRoutes } from './activity-routes.ts'
import { blameLimits, blameRoutes } from './blame/blame-routes.ts'
import type { BrowseParts } from './browse-parts.ts'
import { createCachedResponses } from './cached-responses.ts'
import { createCommitsById } from './commits-by-id.ts'
import { createDiskCache } from './disk-cache.ts'
import { archiveRoutes } from './files/archive-routes.ts'
import { fileRoutes } from './files/file-routes.ts'
import { treeRoutes } from './folders/tree-routes.ts'
import { createGitTasks } from './git-tasks.ts'
import { commitRoutes } from './history/commit-routes.ts'
import { compareRoutes } from './history/compare-routes.ts'
import { createLastCommitFiles, lastCommitLimits } from './last-commits/last-commit-files.ts'
import { createLastCommits } from './last-commits/last-commits.ts'
import { refRoutes } from './refs/ref-routes.ts'
import { createRepositoryStamps, type StampOf } from './repository-stamps.ts'
import { searchRoutes } from './search/search-routes.ts'
import { createTrees } from './trees.ts'

/** Reads files, history and commits of repositories for clients without a clone. */
export type Browse = AsyncDisposable & {
  routes: Route[]
  stampOf: StampOf
  /** Removes files that are not needed any more. */
  prune: () => Promise<void>
}

type Dependencies = {
  db: Db
  git: Git
  pool: ObjectPool
  repositories: Pick<Repositories, 'open' | 'reopen' | 'listByPush'>
  store: Pick<Store, 'at'>
  lfsObjects: Pick<LfsObjects, 'sizesOf' | 'open'>
  protections: Pick<Protections, 'listInForce'>
  settings: PlainSettings
  directories: Pick<Directories, 'pathOf'>
  clock: Clock
  log: Log
}

const refCacheBytes = 16 * 1024 * 1024
/** Git processes for pages and dashboards yield the processor to the server, to fetches and to pushes. */
const niceness = 5

/** Archives have limits of their own: each lasts as long as its client needs to read it. */
function archiveSettingsOf({ maxConcurrentArchives }: PlainSettings) {
  return { maxConcurrentBrowses: maxConcurrentArchives ?? availableParallelism() }
}

export function createBrowse(dependencies: Dependencies): Browse {
  const { settings, store, directories, log } = dependencies
  const git = withOptions(dependencies.git, { niceness })
  const trees = createTrees()
  const commits = createCommitsById()
  const reused = createReusedProcesses({ git })
  const keep = (name: string, limits: typeof blameLimits) =>
    createDiskCache({
      root: join(settings.dataDir, 'browse', name),
      isInPlace: (id) => isThere(directories.pathOf(id)),
      ...limits,
    })
  const keptLastCommits = keep('last-commits', lastCommitLimits)
  const keptBlame = keep('blame', blameLimits)
  const files = createLastCommitFiles(keptLastCommits)
  const lastCommits = createLastCommits({ git, trees, commits, files, log })
  const parts: BrowseParts = {
    ...dependencies,
    revisions: createRevisionFinder(dependencies),
    refCache: createRefCache({ git, maxBytes: refCacheBytes }),
    tasks: createGitTasks({ git, store, reused, settings }),
    archives: createGitTasks({
      git,
      store,
      reused,
      settings: { ...settings, ...archiveSettingsOf(settings) },
    }),
    reused,
    cached: createCachedResponses({ maxBytes: settings.browseCacheBytes }),
    commits,
    trees,
    lastCommits,
    keptBlame,
  }
  return {
    stampOf: createRepositoryStamps({ ...dependencies, refCache: parts.refCache }),
    routes: recheckAccess(dependencies.repositories, [
      ...activityRoutes({ ...dependencies, commits: parts.commits }),
      ...refRoutes(parts),
      ...treeRoutes(parts),
      ...fileRoutes(parts),
      ...commitRoutes(parts),
      ...compareRoutes(parts),
      ...blameRoutes(parts),
      ...searchRoutes(parts),
      ...archiveRoutes(parts),
    ]),
    async prune() {
      await keptLastCommits.prune()
      await keptBlame.prune()
    },
    async [Symbol.asyncDispose]() {
      await lastCommits[Symbol.asyncDispose]()
      await reused[Symbol.asyncDispose]()
    },
  }
}
