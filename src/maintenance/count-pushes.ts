import type { Clock } from '../base/clock.ts'
import type { Database } from '../database/database.ts'
import { hasUnread, listEventsAfter, lockCursor, updateCursor } from '../events/cursors.ts'
import { countNewObjects } from '../git/maintenance/maintain.ts'
import { addPushes, presentAmong, requestAtLeastQuick } from './maintenance-store.ts'

type Options = {
  db: Database
  clock: Clock
  /** Pushes after which a repository is due, which an import counts for. */
  dueAfter: number
  /** Whether maintenance is done without a request by an administrator. */
  isAutomatic: boolean
  /** The directory of a repository. */
  pathOf: (repositoryId: string) => string
}

// Each ref that a push moves is a file of its own until refs are packed, and slows others as a further pack does.
const refsOfOnePush = 4
// Without a bitmap a clone reads every object; for this many, that takes about a tenth of a second.
const largeObjects = 10_000

/**
 * Counts pushes and imports by what the event log says since the last time, so that a push itself has
 * nothing to write for it. Requests maintenance at once for repositories with very many new objects. Returns
 * whether there was anything.
 */
export async function countPushes(options: Options): Promise<boolean> {
  const hadAny = await hasUnread(options.db, 'maintenance')
  const pushed = new Set<string>()
  for (let isMore = hadAny; isMore; ) isMore = await countSome(options, pushed)
  if (options.isAutomatic) for (const id of pushed) await requestIfLarge(options, id)
  return hadAny
}

async function requestIfLarge({ db, clock, pathOf }: Options, repositoryId: string): Promise<void> {
  if ((await countNewObjects(pathOf(repositoryId))) < largeObjects) return
  await requestAtLeastQuick(db, { repositoryId, now: clock.now() })
}

function countSome({ db, clock, dueAfter }: Options, pushed: Set<string>): Promise<boolean> {
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
      // A push has an event for each ref that it moved.
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
        (sum, refs) => sum + Math.ceil(refs / refsOfOnePush),
        imported.has(repositoryId) ? dueAfter : 0,
      )
      await addPushes(tx, { repositoryId, pushes: weight, now: clock.now() })
    }
    for (const id of pushes.keys()) if (present.has(id)) pushed.add(id)
    await updateCursor(tx, 'maintenance', last.seq)
    return true
  })
}
