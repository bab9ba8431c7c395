import { setImmediate as yieldToEventLoop } from 'node:timers/promises'
import { type Clock, dayMs } from '../base/clock.ts'
import type { Database } from '../database/database.ts'
import { deleteEventsUpTo, oldestUnread } from '../events/cursors.ts'
import { listOldest, oldestUnsent } from './event-log-store.ts'

type Dependencies = { db: Database; clock: Clock; keptDays: number; signal: AbortSignal }

const batchSize = 500

/**
 * Deletes events older than `keptDays` days, oldest first, so that the log stays without gaps. Keeps events that a
 * reader has not read or whose deliveries are not composed, and all later ones.
 */
export async function pruneEvents({ db, clock, keptDays, signal }: Dependencies): Promise<void> {
  const before = clock.now() - keptDays * dayMs
  while (!signal.aborted) {
    // Read for each batch, since a replay may need events that are still there.
    const needed = Math.min(await oldestUnread(db), await oldestUnsent(db))
    const oldest = await listOldest(db, batchSize)
    const firstRetained = oldest.findIndex(
      ({ seq, createdAt }) => seq >= needed || createdAt >= before,
    )
    const last = firstRetained === -1 ? oldest.at(-1) : oldest[firstRetained - 1]
    if (last) await deleteEventsUpTo(db, last.seq)
    if (firstRetained !== -1 || oldest.length < batchSize) return
    await yieldToEventLoop()
  }
}
