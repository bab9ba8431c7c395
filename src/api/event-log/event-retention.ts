import { setImmediate as yieldToEventLoop } from 'node:timers/promises'
import { type Clock, dayMs } from '#base/clock.ts'
import type { Database } from '#database/database.ts'
import type { Db } from '#database/schema.ts'
import { oldestUnread } from '#events/cursors.ts'
import { deleteEventsUpTo, listOldest } from '#events/event-store.ts'

type Dependencies = {
  db: Database
  clock: Clock
  keptDays: number
  /** The sequence number of the oldest event that a delivery needs. */
  oldestUndelivered: (db: Db) => Promise<number>
  signal: AbortSignal
}

const batchSize = 500

/**
 * Deletes events older than `keptDays` days, oldest first, so that the log stays without gaps. Keeps events that a
 * reader has not read or that a delivery needs, and all later ones.
 */
export async function pruneEvents(dependencies: Dependencies): Promise<void> {
  const { db, clock, keptDays, oldestUndelivered, signal } = dependencies
  const before = clock.now() - keptDays * dayMs
  while (!signal.aborted) {
    // Read for each batch, since a replay may need events that are still there.
    const needed = Math.min(await oldestUnread(db), await oldestUndelivered(db))
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
