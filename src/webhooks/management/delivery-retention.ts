import { setImmediate as yieldToEventLoop } from 'node:timers/promises'
import { type Clock, dayMs } from '#base/clock.ts'
import { idBefore } from '#base/ids.ts'
import type { Database } from '#database/database.ts'
import { deleteOldDeliveries } from '../queue-store.ts'

type Dependencies = { db: Database; clock: Clock; keptDays: number; signal: AbortSignal }

const batchSize = 500

/** Deletes deliveries that were created more than `keptDays` days ago, except pending ones. */
export async function pruneDeliveries({ db, clock, keptDays, signal }: Dependencies) {
  const before = idBefore(clock.now() - keptDays * dayMs)
  while (!signal.aborted) {
    // In batches, so that no other query waits for long.
    if ((await deleteOldDeliveries(db, before, batchSize)) < batchSize) return
    await yieldToEventLoop()
  }
}
