import type { Principal } from '../access/principal.ts'
import type { Database } from '../database/database.ts'
import type { EventNotifier } from '../events/event-notifier.ts'
import { type EventEntry, toEntry } from './entries.ts'
import { findRepositoryAudience, listAllAfter, type RepositoryAudience } from './event-log-store.ts'
import type { VisibleEventKind } from './event-visibility.ts'

type Dependencies = {
  db: Database
  notifier: EventNotifier
  /** The same principal as it is now, or undefined when it is none any more. */
  refresh: (principal: Principal) => Promise<Principal | undefined>
}

const entriesAtMost = 1000
// What changes without an event here is seen as late: an expiry, and what another process does.
const oldestMs = 1000
// The many. All other kinds tell of what somebody may see, or what it is called.
const changesNoRight = new Set<VisibleEventKind>([
  'push',
  'workflow',
  'secret.saved',
  'secret.deleted',
])

/**
 * The end of the log, in memory: read once for all who follow it, with the rights of those whom it is for. However
 * many follow, a push costs a query or two.
 */
export function createTailCache({ db, notifier, refresh }: Dependencies) {
  let entries: EventEntry[] = []
  /** The entries are all events with numbers above the first, up to the second. */
  let [start, end] = [0, 0]
  let wanted = 0
  let isStale = true
  let readAt = Number.NEGATIVE_INFINITY
  let reading: Promise<void> | undefined
  let sight = newSight()
  notifier.onEvents(() => {
    isStale = true
  })

  async function read(): Promise<void> {
    isStale = false
    // After a time in which nobody followed.
    if (wanted > end + entriesAtMost) restart(wanted)
    const rows = await listAllAfter(db, { after: end, limit: entriesAtMost })
    readAt = performance.now()
    add(rows.map(toEntry))
    if (rows.length === entriesAtMost) isStale = true
  }

  async function catchUp(): Promise<void> {
    // The one that is under way may have begun too early; the next one has not.
    for (let round = 0; round < 2; round++) {
      const isFresh = !isStale && performance.now() - readAt <= oldestMs
      if (isFresh && !reading) return
      reading ??= read().finally(() => {
        reading = undefined
      })
      await reading
    }
  }

  function add(added: EventEntry[]): void {
    const [first, last] = [added.at(0), added.at(-1)]
    if (!first || !last) return
    // What lay between has been forgotten.
    if (first.seq !== end + 1) restart(first.seq - 1)
    entries = [...entries, ...added].slice(-entriesAtMost)
    start = last.seq - entries.length
    end = last.seq
    if (added.some(({ kind }) => !changesNoRight.has(kind))) sight = newSight()
  }

  function restart(at: number): void {
    entries = []
    start = at
    end = at
  }

  function newSight() {
    const at = performance.now()
    const principals = new Map<string, Promise<Principal | undefined>>()
    const places = new Map<string, Promise<RepositoryAudience | undefined>>()
    return {
      isOld: () => performance.now() - at > oldestMs,
      refresh: (principal: Principal) =>
        getOrMake(principals, principal.id, () => refresh(principal)),
      placeOf: (repositoryId: string) =>
        getOrMake(places, repositoryId, () => findRepositoryAudience(db, repositoryId)),
    }
  }

  return {
    /** The events after a number, with the rights as they are since the last of them; undefined when they must be read from the log. */
    async after(seq: number) {
      wanted = Math.max(wanted, seq)
      if (seq > end) isStale = true
      await catchUp()
      if (seq < start || seq > end) return undefined
      if (sight.isOld()) sight = newSight()
      return { entries: entries.slice(seq - start), end, sight }
    },
  }
}

function getOrMake<T>(all: Map<string, T>, key: string, make: () => T): T {
  const found = all.get(key) ?? make()
  all.set(key, found)
  return found
}
