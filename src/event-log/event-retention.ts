import { setImmediate as breathe } from 'node:timers/promises'
import { type Clock, dayMs } from '../base/clock.ts'
import type { Database } from '../database/database.ts'
import { oldestUnread } from '../events/cursors.ts'
import { deleteUpTo, listOldest, oldestUnsent } from './event-log-store.ts'

type Dependencies = { db: Database; clock: Clock; keptDays: number; signal: AbortSignal }

const eventsAtOnce = 500

/**
 * Forgets events that are older than that many days, oldest first, so that the log stays without gaps. What a part
 * of the service has not read, or what is to be sent of it has not been composed yet, stays, and all after it.
 */
export async function pruneEvents({ db, clock, keptDays, signal }: Dependencies): Promise<void> {
  const before = clock.now() - keptDays * dayMs
  while (!signal.aborted) {
    // Asked for each piece: a delivery that is made meanwhile may need what is left.
    const needed = Math.min(await oldestUnread(db), await oldestUnsent(db))
    const oldest = await listOldest(db, eventsAtOnce)
    const stays = oldest.findIndex(({ seq, createdAt }) => seq >= needed || createdAt >= before)
    const last = stays === -1 ? oldest.at(-1) : oldest[stays - 1]
    if (last) await deleteUpTo(db, last.seq)
    if (stays !== -1 || oldest.length < eventsAtOnce) return
    await breathe()
  }
}
