import { setImmediate as breathe } from 'node:timers/promises'
import { type Clock, dayMs } from '../base/clock.ts'
import { idBefore } from '../base/ids.ts'
import type { Database } from '../database/database.ts'
import { deleteOldDeliveries } from './queue-store.ts'

type Dependencies = { db: Database; clock: Clock; keptDays: number; signal: AbortSignal }

const deliveriesAtOnce = 500

/** Forgets deliveries that were made more than that many days ago, but for those that still wait to be made. */
export async function pruneDeliveries({ db, clock, keptDays, signal }: Dependencies) {
  const before = idBefore(clock.now() - keptDays * dayMs)
  while (!signal.aborted) {
    // In pieces, so that nobody waits for long.
    if ((await deleteOldDeliveries(db, before, deliveriesAtOnce)) < deliveriesAtOnce) return
    await breathe()
  }
}
