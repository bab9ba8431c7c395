import type { Clock } from '../base/clock.ts'
import type { Database } from '../database/database.ts'
import { hasUnread, listEventsAfter, lockCursor, updateCursor } from '../events/cursors.ts'
import { countNewObjects } from '../git/maintenance/maintain.ts'
import { addPushes, presentAmong, requestAtLeastQuick } from './maintenance-store.ts'

type Options = {
  db: Database
  clock: Clock
  /** Pushes after which a repository is due; an import counts as this many. */
  dueAfter: number
  /** Whether maintenance runs without a request by an administrator. */
  isAutomatic: boolean
  /** The directory of a repository. */
  pathOf: (repositoryId: string) => string
}

// A push that moves many refs counts as several: each ref is a loose file until it is packed, and slows reads like a pack.
const refsPerPush = 4
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

async function requestIfLarge({ db, clock, pathOf }: Options, repositoryId: string): Promise<void> {
  if ((await countNewObjects(pathOf(repositoryId))) < largeObjects) return
  await requestAtLeastQuick(db, { repositoryId, now: clock.now() })
}

function countBatch({ db, clock, dueAfter }: Options, pushed: Set<string>): Promise<boolean> {
  return db.transaction().execute(async (tx) => {
    const counted = await lockCursor(tx, 'maintenance')
    const events = await listEventsAfter(tx, counted)
    const last = events.at(-1)
    if (!last) return false
    const pushes = new Map<string, Map<string, number>>()
    const imported = new Set<string>()
    for (const { kind, repositoryId, data } of events) {
      if (repositoryId === null) continue
      if (kind === 'repository.imported') imported.add(repositoryId)
      // A push has one event per ref.
      if (kind === 'push') {
        const { pushId } = JSON.parse(data)
        const refs = pushes.get(repositoryId) ?? new Map<string, number>()
        pushes.set(repositoryId, refs.set(pushId, (refs.get(pushId) ?? 0) + 1))
      }
    }
    const present = await presentAmong(tx, [...new Set([...pushes.keys(), ...imported])])
    for (const repositoryId of present) {
      const counts = [...(pushes.get(repositoryId)?.values() ?? [])]
      const weight = counts.reduce(
        (sum, refs) => sum + Math.ceil(refs / refsPerPush),
        imported.has(repositoryId) ? dueAfter : 0,
      )
      await addPushes(tx, { repositoryId, pushes: weight, now: clock.now() })
    }
    for (const id of pushes.keys()) if (present.has(id)) pushed.add(id)
    await updateCursor(tx, 'maintenance', last.seq)
    return true
  })
}
