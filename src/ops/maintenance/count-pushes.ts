import type { Clock } from '#base/clock.ts'
import type { Database } from '#database/database.ts'
import { hasUnread, lockCursor, updateCursor } from '#events/cursors.ts'
import { listEventsAfter } from '#events/event-store.ts'
import { countNewObjects } from '#git/maintenance/maintain.ts'
import { presentAmong } from '#repositories/repository-store.ts'
import { addPushes, requestAtLeastQuick } from './maintenance-store.ts'
import { weighPushes } from './push-weights.ts'

type Options = {
  db: Database
  clock: Clock
  /** Pushes after which a repository is due; an import counts as this many. */
  dueAfter: number
  /** Whether maintenance runs without a request by an administrator. */
  isAutomatic: boolean
  /** The directory of a repository. */
  directoryOf: (repositoryId: string) => Promise<string>
}

// Without a bitmap a clone reads every object, which takes about 0.1 s for this many.
const largeObjects = 10_000

/**
 * Counts pushes and imports from the event log since the last call, so that a push itself need not write a counter.
 * Requests maintenance at once for repositories with very many new objects. Returns whether there were new events.
 */
export async function countPushes(options: Options): Promise<boolean> {
  const hadAny = await hasUnread(options.db, 'maintenance')
  const pushed = new Set<string>()
  for (let isMore = hadAny; isMore; ) isMore = await countBatch(options, pushed)
  if (options.isAutomatic) for (const id of pushed) await requestIfLarge(options, id)
  return hadAny
}

async function requestIfLarge(
  { db, clock, directoryOf }: Options,
  repositoryId: string,
): Promise<void> {
  if ((await countNewObjects(await directoryOf(repositoryId))) < largeObjects) return
  await requestAtLeastQuick(db, { repositoryId, now: clock.now() })
}

function countBatch({ db, clock, dueAfter }: Options, pushed: Set<string>): Promise<boolean> {
  return db.transaction().execute(async (tx) => {
    const counted = await lockCursor(tx, 'maintenance')
    const events = await listEventsAfter(tx, counted)
    const last = events.at(-1)
    if (!last) return false
    const found = weighPushes(events, dueAfter)
    const present = await presentAmong(tx, [...found.weights.keys()])
    for (const [repositoryId, weight] of found.weights) {
      if (!present.has(repositoryId)) continue
      await addPushes(tx, { repositoryId, pushes: weight, now: clock.now() })
      if (found.pushed.has(repositoryId)) pushed.add(repositoryId)
    }
    await updateCursor(tx, 'maintenance', last.seq)
    return true
  })
}
