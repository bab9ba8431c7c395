import { type Clock, dayMs } from '#base/clock.ts'
import type { Log } from '#base/log.ts'
import { isLocked } from '#config/data-directory.ts'
import type { PlainSettings } from '#config/settings.ts'
import type { Database } from '#database/database.ts'
import { findLfsObjects, findReachableLfsObjects } from '#git/objects/lfs-pointers.ts'
import type { Git } from '#git/process/git-process.ts'
import {
  deleteLfsObjects,
  findUncheckedLfs,
  findUncountedLfs,
  listAllLfsObjects,
  listLfsObjects,
  listOldLfsObjects,
  noteLfsCheck,
  updateMissingLfsObjects,
} from '#repositories/lfs-object-store.ts'
import type { Store } from '#repositories/store/store.ts'

/** Deletes LFS objects that no reachable pointer names. */
export type LfsCleanUp = {
  /** Cleans up a repository, whose directory this is. Returns how many objects were deleted. */
  run: (repositoryId: string, directory: string, signal: AbortSignal) => Promise<number>
  /** Counts again what the next import left behind that got some of it since; false when there is none. */
  countNext: (signal: AbortSignal) => Promise<boolean>
  /** Cleans up the next repository that was not for a week; false when there is none. */
  runNext: (signal: AbortSignal) => Promise<boolean>
}

type Dependencies = {
  db: Database
  git: Git
  store: Pick<Store, 'open' | 'lfsFiles'>
  settings: Pick<PlainSettings, 'dataDir' | 'maintenanceMemoryMaxBytes'>
  clock: Clock
  log: Log
}

/** A client may upload objects long before it pushes pointers to them. */
const unreferencedMs = 14 * dayMs
const checkIntervalMs = 7 * dayMs
const batchSize = 500

export function createLfsCleanUp(dependencies: Dependencies): LfsCleanUp {
  const { db, git, store, settings, clock, log } = dependencies

  function toSearch(signal: AbortSignal) {
    const limits = { memoryMaxBytes: settings.maintenanceMemoryMaxBytes }
    return { options: { isIdle: true, limits }, signal }
  }

  /** A backup may have read the rows of objects, and not their bytes yet. */
  const isBackingUp = () => isLocked(settings.dataDir, 'backup')

  async function run(repositoryId: string, directory: string, signal: AbortSignal) {
    const before = clock.now() - unreferencedMs
    const candidates = await listOldLfsObjects(db, repositoryId, before)
    let deleted = 0
    if (candidates.length > 0) {
      const reachable = await findReachableLfsObjects(git, directory, toSearch(signal))
      const oids = candidates.filter((oid) => !reachable.has(oid))
      for (let at = 0; at < oids.length; at += batchSize) {
        signal.throwIfAborted()
        if (isBackingUp()) return deleted
        const batch = oids.slice(at, at + batchSize)
        // Only those that no client has announced again since.
        deleted += await store.lfsFiles.remove(repositoryId, (tx) =>
          deleteLfsObjects(tx, repositoryId, batch, before),
        )
      }
    }
    if (isBackingUp()) return deleted
    await store.lfsFiles.removeStray(repositoryId, before, async (oids) => {
      const rows = await listLfsObjects(db, repositoryId, oids)
      return new Set(rows.map(({ oid }) => oid))
    })
    if (deleted > 0) log.info({ repositoryId, deleted }, 'unreferenced LFS objects deleted')
    return deleted
  }

  async function count(repositoryId: string, signal: AbortSignal): Promise<void> {
    const directory = await store.open(repositoryId)
    const named = await findLfsObjects(git, directory, toSearch(signal))
    const present = (await listAllLfsObjects(db, repositoryId)).get(repositoryId) ?? []
    for (const { oid } of present) named.delete(oid)
    await updateMissingLfsObjects(db, repositoryId, named.size)
  }

  return {
    run,

    async countNext(signal) {
      const repositoryId = await findUncountedLfs(db)
      if (repositoryId === undefined) return false
      // One that was just added has been checked later than it was created, even within its millisecond.
      await noteLfsCheck(db, { repositoryId, now: clock.now() + 1, which: 'new' })
      try {
        await count(repositoryId, signal)
      } catch (error) {
        if (!signal.aborted) log.error({ err: error, repositoryId }, 'LFS objects not counted')
      }
      return true
    },

    async runNext(signal) {
      if (isBackingUp()) return false
      const now = clock.now()
      const due = { olderThan: now - unreferencedMs, uncheckedSince: now - checkIntervalMs }
      const repositoryId = await findUncheckedLfs(db, due)
      if (repositoryId === undefined) return false
      // First, so that a repository that cannot be read does not hold up the others.
      await noteLfsCheck(db, { repositoryId, now, which: 'all' })
      try {
        await run(repositoryId, await store.open(repositoryId), signal)
      } catch (error) {
        if (!signal.aborted) log.error({ err: error, repositoryId }, 'LFS objects not cleaned up')
      }
      return true
    },
  }
}
