import { setTimeout as sleep } from 'node:timers/promises'
import { lockRepository } from '#repositories/store/ref-store.ts'
import type { SharedChanges } from '#repositories/store/store.ts'
import { findPushes } from './push-store.ts'

const patienceMs = 10_000
const pauseMs = 200

/**
 * Finds out whether a push was recorded by a transaction whose connection broke. The lock of the repository's row waits
 * for that transaction if it is still running. Throws the database's error when it does not respond in time.
 */
export async function wasCommitted(
  { transaction }: Pick<SharedChanges, 'transaction'>,
  { id, repositoryId }: { id: string; repositoryId: string },
): Promise<boolean> {
  const deadline = performance.now() + patienceMs
  for (;;) {
    try {
      return await transaction(repositoryId, async (tx) => {
        await lockRepository(tx, repositoryId)
        return (await findPushes(tx, repositoryId, [id])).length > 0
      })
    } catch (error) {
      if (performance.now() > deadline) throw error
      await sleep(pauseMs)
    }
  }
}
