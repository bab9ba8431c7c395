import { type Clock, dayMs } from '#base/clock.ts'
import type { Database } from '#database/database.ts'
import { deleteEntriesUpTo, listOldestEntries, lockNumbers } from './audit-store.ts'
import { recordActions } from './record.ts'

type Dependencies = { db: Database; clock: Clock; keptDays: number; signal: AbortSignal }

const batchSize = 1000

/**
 * Removes entries that are older than `keptDays` days, oldest first, about once a day. Each removal is recorded as an
 * entry with the hash of the last removed entry, from which the hash chain continues.
 */
export async function pruneAudit({ db, clock, keptDays, signal }: Dependencies): Promise<void> {
  const before = clock.now() - keptDays * dayMs
  const [oldest] = await listOldestEntries(db, 1)
  if (!oldest || oldest.createdAt >= before - dayMs) return
  let isDone = false
  while (!isDone && !signal.aborted) {
    isDone = await db.transaction().execute(async (tx) => {
      await lockNumbers(tx)
      const entries = await listOldestEntries(tx, batchSize)
      const firstKept = entries.findIndex(({ createdAt }) => createdAt >= before)
      const last = firstKept === -1 ? entries.at(-1) : entries[firstKept - 1]
      if (!last) return true
      // Before the removal: the hash of the new entry depends on the newest one, which may be removed.
      await recordActions(tx, clock.now(), [
        {
          action: 'audit.pruned',
          actor: { id: 'server', username: 'svc' },
          repositoryId: null,
          data: { upTo: last.seq, hash: last.hash },
        },
      ])
      await deleteEntriesUpTo(tx, last.seq)
      return firstKept !== -1 || entries.length < batchSize
    })
  }
}
