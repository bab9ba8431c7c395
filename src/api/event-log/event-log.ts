import { setTimeout as sleep, setImmediate as yieldToEventLoop } from 'node:timers/promises'
import {
  credentialEnded,
  holds,
  isAdmin,
  maySee,
  type Standing,
  visibilitiesOpenTo,
} from '#access/may.ts'
import { limitKeyOf, type Principal } from '#access/principal.ts'
import { createKeyedMutex } from '#base/concurrency/keyed-mutex.ts'
import { Problem } from '#base/problem.ts'
import type { Database } from '#database/database.ts'
import type { EventNotifier } from '#events/event-notifier.ts'
import { findNth, findNthBefore, readExtent } from '#events/event-store.ts'
import { eventKinds } from '#events/events.ts'
import { invalid, ofQuery } from '#http/validation.ts'
import {
  findRepositoryAudience,
  type RepositoryAudience,
} from '#repositories/collaborator-store.ts'
import type { Repositories } from '#repositories/repositories.ts'
import { type EventEntry, type LoggedEvent, standingIn, toEntry, toLoggedEvent } from './entries.ts'
import { listEvents } from './event-log-store.ts'
import {
  kindsWithoutRepository,
  maySeeEvent,
  repositoryPermissions,
  type VisibleEventKind,
  visibleData,
  visibleKinds,
} from './event-visibility.ts'
import { createTailCache } from './tail-cache.ts'

/** The event log, filtered by what each caller may see. */
export type EventLog = {
  /** Resolves a filter to a selection. Throws `permission_missing` and `repository_not_found`. */
  select: (principal: Principal, filter: EventFilter) => Promise<Selection>
  /** The sequence number of the last event. */
  last: () => Promise<number>
  /**
   * Returns the next events after a cursor, 0 for the oldest event, waiting up to `waitMs` for an event. Without a
   * wait, an empty page does not mean the end of the log. Throws `events_forgotten`, `invalid_request` for a cursor
   * beyond the end, and `token_invalid` or `repository_not_found` when the caller has lost access.
   */
  page: (page: Page) => Promise<EventBatch>
  /**
   * Returns the events before a sequence number, or the last events, newest first. `next` is the `before` of the next
   * page, undefined at the start of the log; earlier pages may be empty.
   */
  pageBack: (page: {
    selection: Selection
    before: number | undefined
    limit: number
  }) => Promise<{ events: LoggedEvent[]; next: number | undefined }>
  /**
   * Reads the events after a cursor, and new ones, in batches: `next` waits for events, and returns an empty batch after
   * `idleMs` without any, or undefined when the signal is aborted. It throws the Problems of `page`. No events are
   * buffered between two calls.
   */
  follow: (follow: Follow) => { next: () => Promise<EventBatch | undefined> }
}

type Dependencies = {
  db: Database
  notifier: EventNotifier
  repositories: Pick<Repositories, 'openInAnyState'>
  /** The current state of a principal; undefined when its credential was deleted or has expired. */
  refresh: (principal: Principal) => Promise<Principal | undefined>
}

/** The part of the log that a caller reads. */
export type Selection = {
  principal: Principal
  repositoryId: string | undefined
  kinds: readonly VisibleEventKind[]
}

/** The visible events of a scan, and the sequence number up to which it read. */
export type EventBatch = { events: LoggedEvent[]; upTo: number }

type Follow = {
  selection: Selection
  after: number
  limit: number
  idleMs: number
  signal: AbortSignal
}

type Page = Omit<Follow, 'idleMs'> & { waitMs: number }

type EventFilter = {
  repository: string | undefined
  kinds: readonly VisibleEventKind[] | undefined
}

// A scan reads no more events than this, whether or not its caller may see them.
const maxEventsPerScan = 2000
// The pause of a user between scans that find nothing before the end of the log.
const emptyScanPauseMs = 20
const pauseAfterEmptyScan = () => sleep(emptyScanPauseMs)

export function createEventLog({ db, notifier, repositories, refresh }: Dependencies): EventLog {
  const tail = createTailCache({ db, notifier, refresh })
  const serialize = createKeyedMutex()

  async function scan({ principal, repositoryId, kinds }: Selection, after: number, limit: number) {
    const caller = requireValid(await refresh(principal))
    const { oldest, last } = await readExtent(db)
    if (after > last) throw cursorBeyondEnd(after, last)
    const from = after === 0 ? oldest - 1 : after
    const upTo = await findScanEnd(repositoryId, from, last)
    const rows = await list(caller, { after: from, upTo, limit, kinds, repositoryId })
    // Checked last: events that are pruned during the scan must not be skipped silently.
    if (after > 0) await requireNotPruned(after)
    const { events, end } = await visible(caller, rows, { limit, repositoryId })
    return { events, upTo: end ?? upTo, last }
  }

  async function scanBack(
    { principal, repositoryId, kinds }: Selection,
    before: number | undefined,
    limit: number,
  ) {
    const caller = requireValid(await refresh(principal))
    const { oldest, last } = await readExtent(db)
    const upTo = Math.min(last, (before ?? last + 1) - 1)
    const after = Math.max(oldest - 1, await findScanStart(repositoryId, upTo))
    const rows = await list(caller, {
      after,
      upTo,
      limit,
      kinds,
      repositoryId,
      isNewestFirst: true,
    })
    const { events, end = after + 1 } = await visible(caller, rows, { limit, repositoryId })
    return { events, next: end > oldest ? end : undefined }
  }

  type Range = Omit<Parameters<typeof listEvents>[1], 'whose'>

  function list(caller: Principal, { kinds, ...range }: Range) {
    const { username } = caller
    const within = caller.repositories && [...caller.repositories]
    return listEvents(db, {
      ...range,
      kinds: visibleKinds(caller, kinds),
      whose: isAdmin(caller)
        ? 'all'
        : { username, open: visibilitiesOpenTo(caller), kindsWithoutRepository, within },
    })
  }

  /** The events of rows that a caller may see; `end` is the sequence number where a full page ends. */
  async function visible(
    caller: Principal,
    rows: Awaited<ReturnType<typeof listEvents>>,
    { limit, repositoryId }: Pick<Range, 'limit' | 'repositoryId'>,
  ) {
    const events = rows.flatMap(
      ({ name, ownerUsername, namespaceId, visibility, role, ...row }) => {
        const entry = toEntry(row)
        const { repositoryId: id } = entry
        const standing =
          id === null || ownerUsername === null || visibility === null
            ? undefined
            : { id, ownerUsername, namespaceId, visibility, role: role ?? undefined }
        return shown(caller, entry, standing, name)
      },
    )
    if (events.length === 0 && repositoryId !== undefined)
      requireVisible(caller, await findRepositoryAudience(db, repositoryId))
    return { events, end: rows.length === limit ? rows.at(-1)?.seq : undefined }
  }

  async function findScanEnd(repositoryId: string | undefined, after: number, last: number) {
    if (repositoryId === undefined) return Math.min(last, after + maxEventsPerScan)
    return (await findNth(db, { repositoryId, after, nth: maxEventsPerScan })) ?? last
  }

  async function findScanStart(repositoryId: string | undefined, upTo: number) {
    if (repositoryId === undefined) return upTo - maxEventsPerScan
    const nth = { repositoryId, upTo, nth: maxEventsPerScan }
    return ((await findNthBefore(db, nth)) ?? 1) - 1
  }

  async function requireNotPruned(after: number): Promise<void> {
    const { oldest } = await readExtent(db)
    if (after >= oldest - 1) return
    const detail = `Older events were pruned. The oldest event that is kept is ${oldest}; continue with after=${oldest - 1}.`
    throw new Problem('events_forgotten', detail)
  }

  /** Reads from the tail cache; undefined when the events are not in it. */
  async function readTail(
    { principal, repositoryId, kinds }: Selection,
    after: number,
    limit: number,
  ): Promise<EventBatch | undefined> {
    const recent = await tail.after(after)
    if (!recent) return undefined
    const { entries, end, accessCache } = recent
    const caller = requireValid(await accessCache.refresh(principal))
    const shownKinds = new Set(visibleKinds(caller, kinds))
    const events: LoggedEvent[] = []
    for (const entry of entries) {
      if (!shownKinds.has(entry.kind)) continue
      if (repositoryId !== undefined && entry.repositoryId !== repositoryId) continue
      const audience =
        entry.repositoryId === null ? undefined : await accessCache.audienceOf(entry.repositoryId)
      const standing = standingIn(audience, caller.username)
      events.push(...shown(caller, entry, standing, audience?.name ?? null))
      if (events.length === limit) return { events, upTo: entry.seq }
    }
    if (events.length === 0 && repositoryId !== undefined)
      requireVisible(caller, await accessCache.audienceOf(repositoryId))
    return { events, upTo: end }
  }

  /** Runs the scans of a user one at a time, with a pause before each, so that other users and requests get a turn. */
  function serializeByUser<T>(
    principal: Principal,
    pause: () => Promise<void>,
    scanNext: () => Promise<T>,
  ) {
    return serialize(limitKeyOf(principal), () => pause().then(scanNext))
  }

  function follow({ selection, after, limit, idleMs, signal }: Follow) {
    let from = after
    let isAtTail = false
    let pause: (() => Promise<void>) | undefined

    async function scanBehind(): Promise<EventBatch | undefined> {
      if (signal.aborted) return undefined
      const { events, upTo, last } = await scan(selection, from, limit)
      from = upTo
      isAtTail = upTo >= last
      const next = events.length > 0 ? yieldToEventLoop : pauseAfterEmptyScan
      pause = isAtTail ? undefined : next
      return { events, upTo }
    }

    /** Waits at the end of the log; undefined when the tail cache no longer has the next event. */
    async function wait(): Promise<EventBatch | undefined> {
      const deadline = performance.now() + idleMs
      const events = await notifier.until({ deadline, signal }, async () => {
        const recent = await readTail(selection, from, limit)
        isAtTail = recent !== undefined
        if (!recent) return []
        from = recent.upTo
        return recent.events.length > 0 ? recent.events : undefined
      })
      return isAtTail ? { events: events ?? [], upTo: from } : undefined
    }

    return {
      async next(): Promise<EventBatch | undefined> {
        if (signal.aborted) return undefined
        const batch = isAtTail ? await wait() : undefined
        if (batch) return batch
        return pause ? serializeByUser(selection.principal, pause, scanBehind) : scanBehind()
      },
    }
  }

  return {
    async select(principal, { repository, kinds = eventKinds }) {
      if (repository === undefined) return { principal, kinds, repositoryId: undefined }
      const permission = repositoryPermissions.find((candidate) => holds(principal, candidate))
      if (!permission) {
        const list = repositoryPermissions.join(', ')
        throw new Problem('permission_missing', `This requires one of the permissions ${list}.`)
      }
      const { id } = await repositories.openInAnyState(principal, repository, permission)
      return { principal, kinds, repositoryId: id }
    },

    last: async () => (await readExtent(db)).last,

    async page({ selection, after, limit, waitMs, signal }) {
      if (waitMs === 0) return scan(selection, after, limit)
      const deadline = performance.now() + waitMs
      const follower = follow({ selection, after, limit, idleMs: waitMs, signal })
      let last: EventBatch = { events: [], upTo: after }
      for (let batch = await follower.next(); batch; batch = await follower.next()) {
        last = batch
        if (batch.events.length > 0 || performance.now() >= deadline) break
      }
      return last
    },

    pageBack: ({ selection, before, limit }) => scanBack(selection, before, limit),

    follow,
  }
}

/** An event as a principal sees it, if it may. */
function shown(
  principal: Principal,
  entry: EventEntry,
  standing: Standing | undefined,
  name: string | null,
): LoggedEvent[] {
  if (!maySeeEvent(principal, entry, standing)) return []
  const data = visibleData(principal, entry, { standing, currentName: name })
  return [toLoggedEvent({ ...entry, data }, name)]
}

function requireValid(principal: Principal | undefined): Principal {
  if (principal) return principal
  throw credentialEnded('token')
}

function requireVisible(principal: Principal, audience: RepositoryAudience | undefined): void {
  const standing = standingIn(audience, principal.username)
  if (standing && maySee(principal, standing)) return
  const detail = 'The repository was deleted, or you no longer have access to it.'
  throw new Problem('repository_not_found', detail)
}

function cursorBeyondEnd(after: number, last: number): Problem {
  const detail = `is ${after}, beyond the end of the log, whose last event is ${last}; it may be from before a restore. Read from the oldest event.`
  return invalid([ofQuery('after', detail)])
}
