import type { Clock } from '#base/clock.ts'
import type { Database } from '#database/database.ts'
import { hasUnread, lockCursor, updateCursor } from '#events/cursors.ts'
import { listEventsAfter } from '#events/event-store.ts'
import { countNewObjects } from '#git/maintenance/maintain.ts'
import { presentAmong } from '#repositories/repository-store.ts'
import { addPushes, requestAtLeastQuick } from './maintenance-store.ts'

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
    const batch = weighPushes(events, dueAfter)
    const present = await presentAmong(tx, [...batch.weights.keys()])
    for (const [repositoryId, weight] of batch.weights) {
      if (!present.has(repositoryId)) continue
      await addPushes(tx, { repositoryId, pushes: weight, now: clock.now() })
      if (batch.pushed.has(repositoryId)) pushed.add(repositoryId)
    }
    await updateCursor(tx, 'maintenance', last.seq)
    return true
  })
}

// A push that moves many refs counts as several: each ref is a loose file until it is packed, and slows reads like a pack.
const refsPerPush = 4

type LoggedEvent = { kind: string; repositoryId: string | null; data: string }

type PushWeights = {
  /** The weight of the pushes and imports of each repository. */
  weights: Map<string, number>
  /** Repositories with pushes. */
  pushed: Set<string>
}

/** Weighs the pushes and imports among events; an import counts as `importWeight`. */
export function weighPushes(events: LoggedEvent[], importWeight: number): PushWeights {
  const imported = new Set<string>()
  const refsOf = new Map<string, Map<string, number>>()
  for (const { kind, repositoryId, data } of events) {
    if (repositoryId === null) continue
    if (kind === 'repository.imported') imported.add(repositoryId)
    // A push has one event per ref.
    if (kind === 'push') {
      const { pushId } = JSON.parse(data)
      const refs = refsOf.get(repositoryId) ?? new Map<string, number>()
      refsOf.set(repositoryId, refs.set(pushId, (refs.get(pushId) ?? 0) + 1))
    }
  }
  const weights = new Map<string, number>()
  for (const id of new Set([...refsOf.keys(), ...imported])) {
    const pushes = [...(refsOf.get(id)?.values() ?? [])].map((refs) =>
      Math.ceil(refs / refsPerPush),
    )
    const weight = pushes.reduce((sum, push) => sum + push, imported.has(id) ? importWeight : 0)
    weights.set(id, weight)
  }
  return { weights, pushed: new Set(refsOf.keys()) }
}
