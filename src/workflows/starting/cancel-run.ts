import type { Clock } from '#base/clock.ts'
import type { Notifier } from '#base/concurrency/notifier.ts'
import type { Database } from '#database/database.ts'
import type { PublishRuns } from '../run-events.ts'
import { updateRun } from '../run-store.ts'
import { completeQueued } from './enqueue-run.ts'

type Dependencies = { db: Database; publishRuns: PublishRuns; changes: Notifier; clock: Clock }

/** Cancels a run that does not matter any more; one that has completed stays as it is. */
export async function cancelRun(
  { db, publishRuns, changes, clock }: Dependencies,
  id: string,
  reason: string,
): Promise<void> {
  await db.transaction().execute(async (tx) => {
    const now = clock.now()
    if (await completeQueued(tx, publishRuns, { id, reason, now })) return
    await updateRun(tx, { id, status: 'running' }, { cancelReason: reason, cancelledAt: now })
  })
  for (const name of [id, 'queue']) changes.notify(name)
}
