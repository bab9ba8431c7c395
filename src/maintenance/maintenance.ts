import type { Clock } from '../base/clock.ts'
import { dayMs } from '../base/clock.ts'
import type { FaultPoint } from '../base/fault-points.ts'
import type { Log } from '../base/log.ts'
import type { FreeSpace } from '../config/free-space.ts'
import type { PlainSettings } from '../config/settings.ts'
import type { Database } from '../database/database.ts'
import {
  type MaintenanceExtent,
  maintain,
  readStorage,
  type Storage,
} from '../git/maintenance/maintain.ts'
import type { Git } from '../git/process/git-process.ts'
import type { Directories } from '../repositories/directories.ts'
import type { Hold, RepositoryHolds } from '../repositories/repository-holds.ts'
import { countPushes } from './count-pushes.ts'
import {
  claimNext,
  countDue,
  type DueRules,
  extendClaim,
  hasRequests,
  type Maintained,
  nameOf,
  recordFailure,
  recordSuccess,
  releaseClaim,
} from './maintenance-store.ts'

export type Maintenance = ReturnType<typeof createMaintenance>

/** How a maintenance ended: `gone` when its repository was deleted, `interrupted` when it was told to stop. */
export type MaintenanceOutcome = 'done' | 'failed' | 'interrupted' | 'gone'

/** What a maintenance has done. */
export type Report = {
  extent: MaintenanceExtent
  ms: number
  packsBefore: number
  packsAfter: number
  bytesBefore: number
  bytesAfter: number
}

type Dependencies = {
  db: Database
  git: Git
  directories: Directories
  repositoryHolds: Pick<RepositoryHolds, 'acquire' | 'untilOthersLeft'>
  freeSpace: Pick<FreeSpace, 'require' | 'measure'>
  settings: PlainSettings
  clock: Clock
  faultPoint: FaultPoint
  log: Log
  /** Who works: what the same name holds from before is its own. */
  holder: string
  onEnd?: (run: { outcome: MaintenanceOutcome; seconds: number }) => void
}

const pruneAfterMs = 14 * dayMs
const pruneEveryMs = 7 * dayMs
const leaseMs = 60_000
const extendEveryMs = 20_000
const retryAfterMs = 10 * 60_000
// No repository waits longer for maintenance because a push into another one takes its time.
const pushesEndWithinMs = 10 * 60_000

/** Keeps repositories quick to read: work that nobody waits for, on one repository at a time. */
export function createMaintenance(dependencies: Dependencies) {
  const { db, directories, repositoryHolds, freeSpace, settings, clock, log, holder } = dependencies
  const { faultPoint, onEnd } = dependencies

  const rules = (): DueRules => ({
    now: clock.now(),
    pushes: settings.maintenancePushes === 'off' ? undefined : settings.maintenancePushes,
    waitMs: dayMs,
    pruneEveryMs,
  })
  const lease = () => ({ holder, until: clock.now() + leaseMs })

  /** Works on one repository that is due, or that it is requested for, unless there is none; whether there was. */
  async function runNext(signal: AbortSignal, which: 'due' | 'requested'): Promise<boolean> {
    const due = which === 'due' ? rules() : { ...rules(), pushes: undefined }
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
      const report = await withLease(row, signal, (held) => maintainOne(row, held))
      const isFull = report.extent === 'full'
      const { hasCruft } = await readStorage(directories.pathOf(repositoryId))
      const done = {
        now: clock.now(),
        report: JSON.stringify(report),
        pruned: isFull ? { hasCruft } : undefined,
      }
      if (!(await recordSuccess(db, row, done))) return 'gone'
      faultPoint('maintenance.recorded')
      const name = await nameOf(db, repositoryId)
      log.info({ repositoryId, name, ...report }, 'maintained a repository')
      return 'done'
    } catch (error) {
      if (signal.aborted) {
        await releaseClaim(db, repositoryId, holder)
        return 'interrupted'
      }
      return await fail(row, error)
    }
  }

  async function fail(row: Maintained, error: unknown): Promise<MaintenanceOutcome> {
    const { repositoryId, failures } = row
    const fault = error instanceof Error ? error.message : String(error)
    const waitMs = Math.min(dayMs, retryAfterMs * 2 ** Math.min(failures, 10))
    const isThere = await recordFailure(db, row, { fault, notBefore: clock.now() + waitMs })
    if (!isThere) {
      // Git makes folders anew when it finds them gone.
      await directories.remove(repositoryId)
      return 'gone'
    }
    const name = await nameOf(db, repositoryId)
    log.error({ repositoryId, name, fault, retryAfterMs: waitMs }, 'a maintenance failed')
    return 'failed'
  }

  /** Keeps a claim while something is done, which is told when it was lost. */
  async function withLease<T>(
    { repositoryId }: Maintained,
    signal: AbortSignal,
    act: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const lost = new AbortController()
    const timer = setInterval(() => {
      extendClaim(db, repositoryId, lease()).then(
        (isOurs) =>
          isOurs || lost.abort(new Error('The repository is gone, or somebody else works on it.')),
        (error) => log.warn({ err: error, repositoryId }, 'a claim could not be extended'),
      )
    }, extendEveryMs)
    try {
      return await act(AbortSignal.any([signal, lost.signal]))
    } finally {
      clearInterval(timer)
    }
  }

  async function maintainOne(row: Maintained, signal: AbortSignal): Promise<Report> {
    const { repositoryId } = row
    const directory = directories.pathOf(repositoryId)
    const startedAt = performance.now()
    await using hold = await repositoryHolds.acquire(repositoryId)
    const before = await readStorage(directory)
    const wanted = extentOf(row, clock.now())
    const { extent, fault } = await affordable(wanted, before)
    await maintainIn(directory, extent, { hold, repositoryId, signal })
    if (fault) throw fault
    const after = await readStorage(directory)
    return {
      extent,
      ms: Math.round(performance.now() - startedAt),
      packsBefore: before.packs,
      packsAfter: after.packs,
      bytesBefore: before.bytes,
      bytesAfter: after.bytes,
    }
  }

  async function maintainIn(
    directory: string,
    extent: MaintenanceExtent,
    { hold, repositoryId, signal }: { hold: Hold; repositoryId: string; signal: AbortSignal },
  ): Promise<void> {
    try {
      await maintain(directory, {
        ...dependencies,
        extent,
        expireBefore: clock.now() - pruneAfterMs,
        memoryMaxBytes: settings.maintenanceMemoryMaxBytes,
        watch: (ended) => hold.watch(ended),
        untilOthersLeft: () => inTime(repositoryHolds.untilOthersLeft(repositoryId, hold), signal),
        signal,
      })
    } catch (error) {
      // A git that fails leaves as much as one that is killed: on a full disk, all that filled it.
      hold.watch(Promise.resolve({ exitCode: null }))
      throw error
    }
  }

  /** What there is room for: what is united is there twice for a while. */
  async function affordable(wanted: MaintenanceExtent, { bytes, largest }: Storage) {
    const short = await freeSpace.require().then(
      () => undefined,
      (error: Error) => error,
    )
    if (short) return { extent: 'refs' as const, fault: short }
    const { freeBytes, leastBytes } = await freeSpace.measure()
    const room = freeBytes - leastBytes
    if (wanted === 'full' && room >= bytes) return { extent: wanted }
    if (wanted !== 'full' && room >= bytes - largest) return { extent: wanted }
    const fault = new Error(
      `There are ${room} bytes to write to; uniting packs of ${bytes} bytes may take as many.`,
    )
    return { extent: 'refs' as const, fault }
  }

  return {
    runNext,

    /** Counts the pushes that were made since it did so before; whether there were any. */
    count: () =>
      countPushes({
        db,
        clock,
        dueAfter: rules().pushes ?? 1,
        isAutomatic: rules().pushes !== undefined,
        pathOf: directories.pathOf,
      }),

    /** Whether somebody asked for a maintenance that was not done yet. */
    isWanted: () => hasRequests(db),

    /** How many repositories wait. */
    countDue: () => countDue(db, rules()),
  }
}

function extentOf({ wanted, isUnpruned, prunedAt }: Maintained, now: number): MaintenanceExtent {
  if (wanted === 'full' || wanted === 'quick') return wanted
  return isUnpruned === 1 && prunedAt < now - pruneEveryMs ? 'full' : 'quick'
}

/** Waits for something, but not for ever: whether it came. Throws at the signal. */
async function inTime(promise: Promise<void>, signal: AbortSignal): Promise<boolean> {
  const late = new AbortController()
  const timer = setTimeout(() => late.abort(), pushesEndWithinMs)
  const either = AbortSignal.any([signal, late.signal])
  const gaveUp = new Promise<boolean>((resolve) => {
    if (either.aborted) resolve(false)
    either.addEventListener('abort', () => resolve(false))
  })
  const came = await Promise.race([promise.then(() => true), gaveUp])
  clearTimeout(timer)
  signal.throwIfAborted()
  return came
}
