import type { Clock } from '#base/clock.ts'
import type { FaultPoint } from '#base/fault-points.ts'
import type { Log } from '#base/log.ts'
import type { FreeSpace } from '#config/free-space.ts'
import type { PlainSettings } from '#config/settings.ts'
import type { Via } from '#database/push-schema.ts'
import type { ObjectPool } from '#git/objects/object-pool.ts'
import type { Git } from '#git/process/git-process.ts'
import type { RefCache } from '#git/refs/ref-cache.ts'
import type { RepositoryHolds } from '#repositories/repository-holds.ts'
import type { PushAuthority } from './push/push.ts'
import { createReceivePack, type ReceivePack } from './receive-pack/receive-pack.ts'
import type { GitLimiters } from './requests/git-limiters.ts'
import { createMeasure, type FetchSource, type Operation } from './requests/operations.ts'
import type { RecentPacks } from './small-packs/recent-packs.ts'
import { type CacheCounts, createUploadPack, type UploadPack } from './upload-pack/upload-pack.ts'

/**
 * Git's smart protocol for an opened repository, independent of the transport:
 * https://git-scm.com/docs/pack-protocol and https://git-scm.com/docs/protocol-v2
 */
export type GitEngine = Omit<UploadPack, 'count'> & { push: ReceivePack; count: () => GitCounts }

/** The git processes and the caches of one process. */
export type GitCounts = CacheCounts & { processes: number }

type Dependencies = {
  git: Git
  /** Readers of objects, which requests share. */
  pool: Pick<ObjectPool, 'of'>
  /** The transport that it serves. */
  via: Via
  pushes: PushAuthority
  repositoryHolds: Pick<RepositoryHolds, 'acquire'>
  limiters: GitLimiters
  freeSpace: Pick<FreeSpace, 'isShort' | 'require'>
  settings: PlainSettings
  clock: Clock
  faultPoint: FaultPoint
  log: Log
  /** Called when an operation has ended. */
  onOperation: (operation: Operation) => void
  /** Called for each fetch. */
  onFetch: (source: FetchSource) => void
  refCache: RefCache
  recentPacks: RecentPacks
}

export function createGitEngine(dependencies: Dependencies): GitEngine {
  const { git, pool, via, pushes, repositoryHolds, limiters, freeSpace, settings, clock, log } =
    dependencies
  const { faultPoint, onOperation, onFetch, refCache, recentPacks } = dependencies
  const measure = createMeasure(onOperation)
  const stallMs = settings.gitStallSeconds * 1000
  const uploadPack = createUploadPack({
    git,
    via,
    limiters,
    freeSpace,
    settings,
    stallMs,
    clock,
    log,
    measure,
    onFetch,
    refCache,
    recentPacks,
  })
  const receivePack = createReceivePack({
    git,
    pool,
    pushes,
    via,
    repositoryHolds,
    limiters,
    freeSpace,
    settings,
    stallMs,
    faultPoint,
    refCache,
    recentPacks,
    log,
  })
  return {
    ...uploadPack,
    push: measure('push', receivePack),
    count: () => ({ ...uploadPack.count(), processes: git.count() }),
  }
}
