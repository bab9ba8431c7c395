import type { Clock } from '#base/clock.ts'
import type { FaultPoint } from '#base/fault-points.ts'
import type { Database } from '#database/database.ts'
import type { Event, Publish } from '#events/events.ts'
import { closeReadersOf } from '#git/process/process-pool.ts'
import type { Directories } from './directories/directories.ts'
import { deleteImport } from './import-store.ts'
import { deleteLfsObjectsOf } from './lfs-object-store.ts'
import { deleteRepository, stateOf } from './repository-store.ts'
import { deleteWebhooksOf } from './scope-store.ts'
import { abandonUploads } from './store/pack-store.ts'
import type { Store } from './store/store.ts'

/** What removing a repository needs. */
export type EraseDependencies = {
  db: Database
  publish: Publish
  directories: Directories
  store: Store
  clock: Clock
  faultPoint: FaultPoint
}

/**
 * Removes a repository with all that belongs to it, and publishes the event. Once its row is deleted, its files cannot be
 * reached. Returns false when it was removed before.
 */
export async function eraseRepository(
  { db, publish, directories, store, clock, faultPoint }: EraseDependencies,
  id: string,
  event: Event,
): Promise<boolean> {
  await directories.markForDeletion(id)
  let isDone: boolean
  try {
    isDone = await db.transaction().execute(async (tx) => {
      await store.release(tx, id)
      await abandonUploads(tx, await deleteLfsObjectsOf(tx, id))
      if (!(await deleteRepository(tx, id))) return false
      await deleteImport(tx, id)
      await publish(tx, clock.now(), [event])
      await deleteWebhooksOf(tx, id)
      return true
    })
  } catch (error) {
    if (!(await isKnownAbsent(db, id))) await directories.unmarkForDeletion(id)
    throw error
  }
  faultPoint('delete.recorded')
  await closeReadersOf(directories.pathOf(id))
  await store.remove(id)
  return isDone
}

// A connection that breaks at a commit leaves its outcome unknown.
export async function isKnownAbsent(db: Database, id: string): Promise<boolean> {
  return stateOf(db, id).then(
    (state) => state === undefined,
    () => false,
  )
}
