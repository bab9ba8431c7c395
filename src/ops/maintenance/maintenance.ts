import { type Clock, dayMs } from '#base/clock.ts'
import { createPoller } from '#base/concurrency/poller.ts'
import type { FaultPoint } from '#base/fault-points.ts'
import type { Log } from '#base/log.ts'
import { orAborted, within } from '#base/timeouts.ts'
import type { FreeSpace } from '#config/free-space.ts'
import type { PlainSettings } from '#config/settings.ts'
import type { Database } from '#database/database.ts'
import {
  indexPacks,
  type MaintenanceExtent,
  maintain,
  measurePacks,
  type Storage,
} from '#git/maintenance/maintain.ts'
import type { Ended, Git } from '#git/process/git-process.ts'
import type { Directories } from '#repositories/directories/directories.ts'
import { placeDirectory } from '#repositories/reconcile-directories.ts'
import type { Hold, RepositoryHolds } from '#repositories/repository-holds.ts'
import { measureRepository } from '#repositories/repository-sizes.ts'
import { nameOf } from '#repositories/repository-store.ts'
import type { Store } from '#repositories/store/store.ts'
import { countPushes } from './count-pushes.ts'
import { affordableExtent, dueExtent, pruneIntervalMs, retryDelayMs } from './extent.ts'
import { createLfsCleanUp, type LfsCleanUp } from './lfs-clean-up.ts'
import {
  claimNext,
  countDue,
  type DueRules,
  extendClaim,
  hasRequests,
  type Maintained,
  recordFailure,
  recordSuccess,
  releaseLease,
} from './maintenance-store.ts'

/** Maintains repositories in the background, one at a time, to keep them fast to read. */
export type Maintenance = {
  /** Maintains the next repository in a scope; false when there is none. */
  runNext: (signal: AbortSignal, scope: 'due' | 'requested') => Promise<boolean>
  /** Indexes the packs of the next repository whose cached directory has none yet; false when there is none. */
  indexNext: (signal: AbortSignal) => Promise<boolean>
  /** Counts the LFS objects that the next import left behind; false when there is none to count. */
  countNextLfs: LfsCleanUp['countNext']
  /** Deletes unreferenced LFS objects of the next repository where that is due; false when there is none. */
  cleanUpNextLfs: LfsCleanUp['runNext']
  /** Counts the pushes since the last call; returns whether there were any. */
  count: () => Promise<boolean>
  /** Whether a requested maintenance has not run yet. */
  hasRequests: () => Promise<boolean>
  /** The number of repositories that are due. */
  countDue: () => Promise<number>
}

/** How a maintenance ended: `gone` if its repository was deleted, `interrupted` if it was aborted. */
type MaintenanceOutcome = 'done' | 'failed' | 'interrupted' | 'gone'

/** The result of a successful maintenance. */
export type Report = {
  extent: MaintenanceExtent
  ms: number
  packsBefore: number
  packsAfter: number
  bytesBefore: number
  bytesAfter: number
}

type HeldRepository = { hold: Hold; repositoryId: string; signal: AbortSignal }

type Dependencies = {
  db: Database
  git: Git
  directories: Directories
  store: Store
  repositoryHolds: Pick<RepositoryHolds, 'acquire' | 'waitForOtherHolds'>
  freeSpace: Pick<FreeSpace, 'require' | 'measure'>
  settings: PlainSettings
  clock: Clock
  faultPoint: FaultPoint
  log: Log
  /** The unique name of this server, which owns its leases, also those from before a restart. */
  leaseOwner: string
  onEnd?: (run: { outcome: MaintenanceOutcome; seconds: number }) => void
}

export const pruneAfterMs = 14 * dayMs
const leaseMs = 60_000
const extendIntervalMs = 20_000
// Bounds how long one slow push can delay the maintenance of other repositories.
const maxPushWaitMs = 10 * 60_000

export function createMaintenance(dependencies: Dependencies): Maintenance {
  const { db, directories, store, repositoryHolds, freeSpace, settings, clock, log, leaseOwner } =
    dependencies
  const { faultPoint, onEnd } = dependencies
  const lfsCleanUp = createLfsCleanUp(dependencies)

  const rules = (): DueRules => ({
    now: clock.now(),
    pushes: settings.maintenancePushes === 'off' ? undefined : settings.maintenancePushes,
    waitMs: dayMs,
    pruneIntervalMs,
  })
  const lease = () => ({ leaseOwner, until: clock.now() + leaseMs })

  async function runNext(signal: AbortSignal, scope: 'due' | 'requested'): Promise<boolean> {
    const due = scope === 'due' ? rules() : { ...rules(), pushes: undefined }
    const row = await claimNext(db, lease(), due)
    if (!row) return false
    faultPoint('maintenance.claimed')
    const startedAt = performance.now()
    const outcome = await work(row, signal)
    onEnd?.({ outcome, seconds: (performance.now() - startedAt) / 1000 })
    return true
  }

  async function work(row: Maintained, signal: AbortSignal): Promise<MaintenanceOutcome> {
    const { repositoryId } = row
    try {
      const report = await withLease(
        signal,
        {
          extend: () => extendClaim(db, repositoryId, lease()),
          onError: (error) =>
            log.warn({ err: error, repositoryId }, 'maintenance lease not extended'),
        },
        (leaseSignal) => maintainRepository(row, leaseSignal),
      )
      const isFull = report.extent === 'full'
      await measureRepository(dependencies, repositoryId)
      const { hasCruft } = await measurePacks(directories.pathOf(repositoryId))
      const done = {
        now: clock.now(),
        report: JSON.stringify(report),
        pruned: isFull ? { hasCruft } : undefined,
      }
      if (!(await recordSuccess(db, row, done))) return 'gone'
      faultPoint('maintenance.recorded')
      const name = await nameOf(db, repositoryId)
      log.info({ repositoryId, name, ...report }, 'repository maintained')
      return 'done'
    } catch (error) {
      if (signal.aborted) {
        await releaseLease(db, repositoryId, leaseOwner)
        return 'interrupted'
      }
      return await fail(row, error)
    }
  }

  async function fail(row: Maintained, error: unknown): Promise<MaintenanceOutcome> {
    const { repositoryId, failures } = row
    const fault = error instanceof Error ? error.message : String(error)
    const waitMs = retryDelayMs(failures)
    const exists = await recordFailure(db, row, { fault, notBefore: clock.now() + waitMs })
    const name = await nameOf(db, repositoryId)
    if (name === undefined) {
      // A running git may have recreated directories of the deleted repository.
      if (exists && !store.shared) await placeDirectory(db, directories, repositoryId)
      else await store.remove(repositoryId)
      return 'gone'
    }
    log.error({ repositoryId, name, fault, retryAfterMs: waitMs }, 'maintenance failed')
    return 'failed'
  }

  async function maintainRepository(row: Maintained, signal: AbortSignal): Promise<Report> {
    const { repositoryId } = row
    const directory = await store.open(repositoryId)
    const startedAt = performance.now()
    await using hold = await repositoryHolds.acquire(repositoryId)
    await using generation = await store.shared?.beginGeneration(repositoryId)
    const before = await measurePacks(directory)
    const { extent, error } = await extentFor(dueExtent(row, clock.now()), before)
    const options = optionsFor({ hold, repositoryId, signal })
    const pruned = await watched(hold, maintain(directory, { ...options, extent }))
    await generation?.publish(pruned)
    if (extent === 'full') await lfsCleanUp.run(repositoryId, directory, signal)
    if (error) throw error
    const after = await measurePacks(directory)
    return {
      extent,
      ms: Math.round(performance.now() - startedAt),
      packsBefore: before.packs,
      packsAfter: after.packs,
      bytesBefore: before.bytes,
      bytesAfter: after.bytes,
    }
  }

  function optionsFor({ hold, repositoryId, signal }: HeldRepository) {
    return {
      git: dependencies.git,
      faultPoint,
      isCache: store.shared !== undefined,
      expireBefore: clock.now() - pruneAfterMs,
      memoryMaxBytes: settings.maintenanceMemoryMaxBytes,
      watch: (ended: Promise<Ended>) => hold.watch(ended),
      waitForOtherHolds: () =>
        waitWithTimeout(repositoryHolds.waitForOtherHolds(repositoryId, hold), signal),
      signal,
    }
  }

  async function watched<T>(hold: Hold, work: Promise<T>): Promise<T> {
    try {
      return await work
    } catch (error) {
      // A failed git leaves temporary files, as a killed git does; on a full disk, they are what filled it.
      hold.watch(Promise.resolve({ exitCode: null }))
      throw error
    }
  }

  async function indexNext(signal: AbortSignal): Promise<boolean> {
    if (rules().pushes === undefined) return false
    const repositoryId = store.shared?.takeUnindexed()
    if (repositoryId === undefined) return false
    try {
      await using hold = await repositoryHolds.acquire(repositoryId)
      await using directory = await store.shared?.beginGeneration(repositoryId)
      if (!directory) return false
      const options = optionsFor({ hold, repositoryId, signal })
      await watched(hold, indexPacks(directory.path, options))
    } catch (error) {
      // Its fetches are slower until its packs change again.
      if (!signal.aborted) log.warn({ err: error, repositoryId }, 'packs of a cache not indexed')
    }
    return true
  }

  async function extentFor(preferred: MaintenanceExtent, storage: Storage) {
    const spaceError = await freeSpace.require().then(
      () => undefined,
      (error: Error) => error,
    )
    if (spaceError) return { extent: 'refs' as const, error: spaceError }
    const { freeBytes, minFreeBytes } = await freeSpace.measure()
    return affordableExtent(preferred, storage, freeBytes - minFreeBytes)
  }

  return {
    runNext,
    indexNext,
    countNextLfs: lfsCleanUp.countNext,
    cleanUpNextLfs: lfsCleanUp.runNext,

    count: () =>
      countPushes({
        db,
        clock,
        dueAfter: rules().pushes ?? 1,
        isAutomatic: rules().pushes !== undefined,
        directoryOf: store.open,
      }),

    hasRequests: () => hasRequests(db),

    countDue: () => countDue(db, rules()),
  }
}

/** Waits for a promise, at most `maxPushWaitMs`; returns whether it resolved. Throws when the signal is aborted. */
async function waitWithTimeout(promise: Promise<void>, signal: AbortSignal): Promise<boolean> {
  const arrived = within(maxPushWaitMs, promise).then(
    () => true,
    () => false,
  )
  return await orAborted(arrived, signal)
}

/** Extends a lease while `act` runs. The signal of `act` is aborted when the lease is lost. */
async function withLease<T>(
  signal: AbortSignal,
  lease: { extend: () => Promise<boolean>; onError: (error: unknown) => void },
  act: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const lost = new AbortController()
  await using _extending = createPoller({
    intervalMs: extendIntervalMs,
    async run() {
      if (await lease.extend()) return
      lost.abort(
        new Error(
          'The lease was lost: the repository was deleted, or another server maintains it.',
        ),
      )
    },
    onError: lease.onError,
  })
  return await act(AbortSignal.any([signal, lost.signal]))
}
