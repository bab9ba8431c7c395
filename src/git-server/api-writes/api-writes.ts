import type { Clock } from '#base/clock.ts'
import { createFairLimiter } from '#base/concurrency/fair-limiter.ts'
import type { PlainSettings } from '#config/settings.ts'
import type { Route } from '#http/route.ts'
import type { Directories } from '#repositories/directories/directories.ts'
import { recheckAccess } from '#repositories/recheck-access.ts'
import type { Repositories } from '#repositories/repositories.ts'
import { createRevisionFinder } from '#repositories/revision-finder.ts'
import type { Store } from '#repositories/store/store.ts'
import { keysOf } from '../requests/git-request.ts'
import { type ApiPushParts, type ApiWrite, createPushFromApi } from './api-push.ts'
import { createChangeRef } from './change-ref.ts'
import { createCommits, type ProposeCommit } from './create-commit.ts'
import { createFindConflict, type FindConflict } from './find-conflict.ts'
import { createMergeBranch, type MergeBranch } from './merge-branch.ts'
import { createMergeChain, type MergeChain } from './merge-chain.ts'
import { writeRoutes } from './write-routes.ts'

type Dependencies = ApiPushParts & {
  directories: Pick<Directories, 'scratchOf' | 'removeScratch'>
  repositories: Repositories
  store: Pick<Store, 'at'>
  settings: PlainSettings
  clock: Clock
  /** The public base URL of the service. */
  baseUrl: () => string
}

type ApiWrites = {
  routes: Route[]
  mergeBranch: MergeBranch
  proposeCommit: ProposeCommit
  findConflict: FindConflict
  mergeChain: MergeChain
}

/** Commits, merges and changes of refs through the API. */
export function createApiWrites(dependencies: Dependencies): ApiWrites {
  const { repositories, store, settings } = dependencies
  const push = createPushFromApi(dependencies)
  const parts = { ...dependencies, push, revisions: createRevisionFinder(dependencies) }
  const limit = createLimit(settings, store)
  const { createCommit, proposeCommit } = createCommits(parts)
  const merge = createMergeBranch(parts)
  const mergeBranch: MergeBranch = (write, request) => limit(write, () => merge(write, request))
  const changeRef = createChangeRef(parts)
  const { commitBodyMaxBytes } = settings
  return {
    mergeBranch,
    findConflict: createFindConflict(dependencies),
    proposeCommit: (write, request) => limit(write, () => proposeCommit(write, request)),
    mergeChain: createMergeChain(dependencies),
    routes: recheckAccess(
      repositories,
      writeRoutes({
        repositories,
        createCommit: (write, request) => limit(write, () => createCommit(write, request)),
        mergeBranch,
        changeRef: {
          set: (write, ref, request) => limit(write, () => changeRef.set(write, ref, request)),
          delete: (write, ref, given) => limit(write, () => changeRef.delete(write, ref, given)),
        },
        commitBodyMaxBytes,
      }),
    ),
  }
}

/**
 * Limits how many changes are prepared at a time: each holds objects in memory, and merges start git processes. The push
 * at the end has the limiter of all pushes.
 */
function createLimit(settings: PlainSettings, store: Pick<Store, 'at'>) {
  const limiter = createFairLimiter({
    overall: settings.maxConcurrentPushes,
    perKey: settings.maxConcurrentPushesPerRepository,
    waiting: settings.gitWaiting,
    waitMs: settings.gitWaitSeconds * 1000,
  })
  return async <T>(write: ApiWrite, work: () => Promise<T>): Promise<T> => {
    using _permit = await limiter.acquire(keysOf(write), write.signal)
    // The cache of a shared store may have evicted the directory during the wait.
    await store.at({ id: write.repository.id, version: 0 })
    return await work()
  }
}
