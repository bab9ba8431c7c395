import { join } from 'node:path'
import type { Clock } from '#base/clock.ts'
import type { FaultPoint } from '#base/fault-points.ts'
import { holdLock } from '#base/lock-file.ts'
import type { Log } from '#base/log.ts'
import { isLocked, lock, lockServer } from '#config/data-directory.ts'
import type { FreeSpace } from '#config/free-space.ts'
import type { Settings } from '#config/settings.ts'
import type { Database } from '#database/database.ts'
import type { Git } from '#git/process/git-process.ts'
import { endOrphans } from '#git/process/orphans.ts'
import { sshOwner } from '#git-server/ssh/ssh-process.ts'
import { type Adoption, adoptRepositories } from '#ops/maintenance/adopt-repositories.ts'
import { createMaintenance } from '#ops/maintenance/maintenance.ts'
import type { Directories } from '#repositories/directories/directories.ts'
import { createRepositoryHolds } from '#repositories/repository-holds.ts'
import type { SharedChanges, Store } from '#repositories/store/store.ts'
import { adoptRunFiles } from '#workflows/run-files/adopt-run-files.ts'

/** What commands may do with a data directory, depending on whether a server runs on it. */
export type Offline = {
  /** Whether a server is running now. */
  isServed: () => boolean
  /** Prevents servers from starting; throws when one is running. */
  holdServer: () => Promise<Disposable>
  /** Prevents a starting server from removing repositories that are being created or deleted here. */
  changeRepositories: () => Promise<Disposable>
  /** Does requested maintenance in place of a server. Returns false when a server is running, or nothing is left. */
  maintainInProcess: () => Promise<boolean>
  /** Moves the repositories of the data directory into a shared store, with artifacts and caches; throws when a server is running. */
  adoptRepositories: (
    shared: SharedChanges,
    options: { report: (progress: string) => void; signal: AbortSignal },
  ) => Promise<Adoption & { runFiles: number }>
}

type Dependencies = {
  db: Database
  git: Git
  directories: Directories
  localDirectories: Directories
  store: Store
  freeSpace: FreeSpace
  settings: Settings
  clock: Clock
  faultPoint: FaultPoint
  log: Log
  leaseOwner: string
}

const lockWaitMs = 5000

export function createOffline(dependencies: Dependencies): Offline {
  const { directories, log, settings } = dependencies
  const { dataDir } = settings
  const changeRepositories = () => lock(dataDir, 'repositories', lockWaitMs)

  return {
    isServed: () => isLocked(dataDir, 'server'),
    holdServer: () => lockServer(dataDir),
    changeRepositories,

    async adoptRepositories(shared, options) {
      using _server = await lockServer(dataDir)
      const { db, store, faultPoint, localDirectories } = dependencies
      // First, because a server starts as soon as all repositories are in the store.
      const { bucket } = store
      const runFiles = bucket ? await adoptRunFiles({ db, dataDir, bucket }, options) : 0
      faultPoint('adopt.files-copied')
      const { lfsFiles } = store
      const moving = { ...dependencies, shared, lfsFiles, directories: localDirectories }
      return { ...(await adoptRepositories(moving, options)), runFiles }
    },

    async maintainInProcess() {
      using server = await holdLock(join(dataDir, 'server.lock'))
      if (!server) return false
      {
        using _lock = await changeRepositories()
        await endOrphans(sshOwner(dataDir), dataDir)
      }
      const repositoryHolds = createRepositoryHolds({ directories, log, startedAt: Date.now() })
      const maintenance = createMaintenance({ ...dependencies, repositoryHolds })
      return (
        (await maintenance.hasRequests()) &&
        maintenance.runNext(new AbortController().signal, 'due')
      )
    },
  }
}
