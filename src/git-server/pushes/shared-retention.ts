import { type Clock, dayMs } from '#base/clock.ts'
import type { Log } from '#base/log.ts'
import type { PlainSettings } from '#config/settings.ts'
import { retainedRef, retainedRefs, retainingPush } from '#git/refs/ref-name.ts'
import { isOverwriting, type PushedUpdate } from '#git/refs/refs.ts'
import {
  deleteRefs,
  lockRepository,
  raiseVersion,
  readRefsUnder,
} from '#repositories/store/ref-store.ts'
import type { SharedChanges } from '#repositories/store/store.ts'
import { clearKept, listKeeping, listWithExpired } from './push-store.ts'

type Dependencies = {
  shared: Pick<SharedChanges, 'db' | 'transaction'>
  settings: Pick<PlainSettings, 'undoDays'>
  clock: Clock
  log: Log
}

/** Retains overwritten commits by hidden refs, as createRetainedCommits does, in the transactions of a shared store. */
export function createSharedRetention({ shared, settings, clock, log }: Dependencies) {
  const { db, transaction } = shared
  const isRetaining = (update: PushedUpdate) => settings.undoDays > 0 && isOverwriting(update)

  async function releaseExpired(repositoryId: string, now: number): Promise<void> {
    await transaction(repositoryId, async (tx) => {
      const repository = await lockRepository(tx, repositoryId)
      if (!repository) return
      const keeping = new Set(await listKeeping(tx, repositoryId, now))
      const refs = await readRefsUnder(tx, repositoryId, retainedRefs)
      const names = [...refs.keys()].filter((ref) => !keeping.has(retainingPush(ref) ?? ''))
      await deleteRefs(tx, repositoryId, names)
      await clearKept(tx, repositoryId, now)
      await raiseVersion(tx, repositoryId, repository)
    })
  }

  return {
    /** The hidden refs, with their values, that retain what a push overwrites. */
    refsFor: (pushId: string, updates: PushedUpdate[]): Map<string, string> =>
      new Map(
        updates.filter(isRetaining).map((update) => [retainedRef(pushId, update), update.before]),
      ),

    /** Until when the commits are retained that updates overwrite; null when there are none. */
    until: (updates: PushedUpdate[], now: number): number | null =>
      updates.some(isRetaining) ? now + settings.undoDays * dayMs : null,

    /** Releases the commits whose retention period is over. */
    async expire(): Promise<void> {
      const now = clock.now()
      for (const repositoryId of await listWithExpired(db, now)) {
        await releaseExpired(repositoryId, now).catch((error) =>
          log.error({ err: error, repositoryId }, 'expired commits not released'),
        )
      }
    },
  }
}
