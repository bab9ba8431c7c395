import type { Principal } from '#access/principal.ts'
import { createSingleFlight } from '#base/concurrency/single-flight.ts'
import { createOncePerKey } from '#base/once.ts'
import type { Database } from '#database/database.ts'
import type { EventNotifier } from '#events/event-notifier.ts'
import { listEventsAfter } from '#events/event-store.ts'
import {
  findRepositoryAudience,
  type RepositoryAudience,
} from '#repositories/collaborator-store.ts'
import { type EventEntry, toEntry } from './entries.ts'
import type { VisibleEventKind } from './event-visibility.ts'

type Dependencies = {
  db: Database
  notifier: EventNotifier
  /** The current state of a principal; undefined when its credential was deleted or has expired. */
  refresh: (principal: Principal) => Promise<Principal | undefined>
}

const maxEntries = 1000
// Changes without an event in this process, such as an expiry, are noticed after this time.
const maxAgeMs = 1000
// Frequent kinds that change neither access nor names. All other kinds invalidate the access cache.
const accessNeutralKinds = new Set<VisibleEventKind>([
  'push',
  'workflow',
  'secret.saved',
  'secret.deleted',
])

/**
 * Caches the newest events, and the access of their readers. All subscribers share one read, so a push costs one or two
 * queries however many there are.
 */
export function createTailCache({ db, notifier, refresh }: Dependencies) {
  let entries: EventEntry[] = []
  /** The entries are all events with sequence numbers above `start`, up to `end`. */
  let [start, end] = [0, 0]
  let maxRequested = 0
  let isStale = true
  let readAt = Number.NEGATIVE_INFINITY
  const share = createSingleFlight<void>()
  let accessCache = createAccessCache()
  notifier.onEvents(() => {
    isStale = true
  })

  async function read(): Promise<void> {
    isStale = false
    readAt = Number.NEGATIVE_INFINITY
    // The cache fell behind while there were no subscribers.
    if (maxRequested > end + maxEntries) restart(maxRequested)
    const rows = await listEventsAfter(db, end, maxEntries)
    readAt = performance.now()
    append(rows.map(toEntry))
    if (rows.length === maxEntries) isStale = true
  }

  async function catchUp(): Promise<void> {
    // A read in progress may have started too early; the next one has not.
    for (let round = 0; round < 2; round++) {
      if (!isStale && performance.now() - readAt <= maxAgeMs) return
      await share('read', read)
    }
  }

  function append(added: EventEntry[]): void {
    const [first, last] = [added.at(0), added.at(-1)]
    if (!first || !last) return
    // The events between were pruned.
    if (first.seq !== end + 1) restart(first.seq - 1)
    entries = [...entries, ...added].slice(-maxEntries)
    start = last.seq - entries.length
    end = last.seq
    if (added.some(({ kind }) => !accessNeutralKinds.has(kind))) accessCache = createAccessCache()
  }

  function restart(from: number): void {
    entries = []
    start = from
    end = from
  }

  function createAccessCache() {
    const createdAt = performance.now()
    const principals = createOncePerKey<Promise<Principal | undefined>>()
    const audiences = createOncePerKey<Promise<RepositoryAudience | undefined>>()
    return {
      isExpired: () => performance.now() - createdAt > maxAgeMs,
      refresh: (principal: Principal) => principals(principal.id, () => refresh(principal)),
      audienceOf: (repositoryId: string) =>
        audiences(repositoryId, () => findRepositoryAudience(db, repositoryId)),
    }
  }

  return {
    /** The events after a sequence number, with access no older than the last of them; undefined when they are not cached. */
    async after(seq: number) {
      maxRequested = Math.max(maxRequested, seq)
      if (seq > end) isStale = true
      await catchUp()
      if (seq < start || seq > end) return undefined
      if (accessCache.isExpired()) accessCache = createAccessCache()
      return { entries: entries.slice(seq - start), end, accessCache }
    },
  }
}
