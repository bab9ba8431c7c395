import type { Principal } from '#access/principal.ts'
import type { Clock } from '#base/clock.ts'
import type { FaultPoint } from '#base/fault-points.ts'
import type { Log } from '#base/log.ts'
import type { FreeSpace } from '#config/free-space.ts'
import type { PlainSettings } from '#config/settings.ts'
import type { Database } from '#database/database.ts'
import type { Db } from '#database/schema.ts'
import type { Git } from '#git/process/git-process.ts'
import type { JsonRoute } from '#http/route.ts'
import type { Repositories, Repository } from '#repositories/repositories.ts'
import type { Store } from '#repositories/store/store.ts'
import { artifactAndCacheRoutes } from './artifact-routes.ts'
import { createArtifacts } from './artifacts.ts'
import { createDownloads } from './downloads.ts'
import { createFileLifeCycle } from './file-life-cycle.ts'
import { createFileStorage } from './file-storage.ts'
import type { HeldRun, UrlOfRun } from './held-run.ts'
import { createCacheScopes, createRunCaches } from './run-caches.ts'
import { runFileRoutes } from './run-file-routes.ts'

/** Artifacts and caches of workflow runs. */
export type RunFiles = {
  routes: JsonRoute[]
  /** Gives up what this server was receiving when it ended. */
  prepare: () => Promise<void>
  /** Deletes what is over, unused, or beyond the limits. */
  sweep: () => Promise<void>
}

type Dependencies = {
  db: Database
  git: Git
  repositories: Repositories
  store: Pick<Store, 'open' | 'bucket'>
  /** Finds a run by its id or its number. Throws `run_not_found`. */
  findRun: (repository: Repository, idOrNumber: string) => Promise<Pick<HeldRun, 'id' | 'ref'>>
  /** The run that the token of a run is for. Throws `run_not_found`. */
  heldRun: (principal: Principal, id: string) => Promise<HeldRun>
  urlOfRun: UrlOfRun
  isHeld: (tx: Db, run: HeldRun) => Promise<boolean>
  /** The name of this node. */
  node: string
  freeSpace: FreeSpace
  settings: PlainSettings
  clock: Clock
  faultPoint: FaultPoint
  log: Log
}

export function createRunFiles(dependencies: Dependencies): RunFiles {
  const { db, git, store, heldRun, settings, freeSpace, urlOfRun } = dependencies
  const { dataDir } = settings
  const storage = createFileStorage({ dataDir, bucket: store.bucket, freeSpace })
  const downloads = createDownloads({ storage, settings })
  const files = createFileLifeCycle({ ...dependencies, storage })
  const scopes = createCacheScopes(db, git, store.open)
  const isOnDisk = store.bucket === undefined
  const caches = createRunCaches({ ...dependencies, files, downloads, scopes, isOnDisk })
  const artifacts = createArtifacts({ ...dependencies, files, makeSpace: caches.makeSpace })

  return {
    routes: [
      ...artifactAndCacheRoutes({ ...dependencies, artifacts, caches, downloads }),
      ...runFileRoutes({ db, heldRun, urlOfRun, artifacts, caches, downloads }),
    ],

    prepare: files.prepare,

    async sweep() {
      await artifacts.expire()
      await caches.evict()
      await files.sweep()
    },
  }
}
