import { setImmediate as breathe, setTimeout as sleep } from 'node:timers/promises'
import type { Access } from '../access/access-watch.ts'
import { holds, isAdmin, maySee } from '../access/may.ts'
import type { Principal } from '../access/principal.ts'
import { Problem } from '../base/problem.ts'
import { createKeyedMutex } from '../concurrency/keyed-mutex.ts'
import type { Database } from '../database/database.ts'
import type { EventNotifier } from '../events/event-notifier.ts'
import { eventKinds } from '../events/events.ts'
import type { Repositories } from '../repositories/repositories.ts'
import { type LoggedEvent, standingIn, toEntry, toLoggedEvent } from './entries.ts'
import {
  findNth,
  findRepositoryAudience,
  listEvents,
  type RepositoryAudience,
  readExtent,
} from './event-log-store.ts'
import {
  kindsWithoutRepository,
  maySeeEvent,
  repositoryPermissions,
  type VisibleEventKind,
  visibleKinds,
} from './event-visibility.ts'
import { createTailCache } from './tail-cache.ts'

export type EventLog = ReturnType<typeof createEventLog>

type Dependencies = {
  db: Database
  notifier: EventNotifier
  repositories: Pick<Repositories, 'find'>
  /** The same principal as it is now, or undefined when it is none any more. */
  refresh: (principal: Principal) => Promise<Principal | undefined>
}

/** What of the log somebody reads. */
export type Selection = {
  principal: Principal
  repositoryId: string | undefined
  kinds: readonly VisibleEventKind[]
}

/** The events that there were for somebody, and the number up to which was looked. */
export type Seen = { events: LoggedEvent[]; upTo: number }

type Following = {
  selection: Selection
  after: number
  limit: number
  idleMs: number
  signal: AbortSignal
}

type Page = Omit<Following, 'idleMs'> & { waitMs: number }

type EventFilter = {
  repository: string | undefined
  kinds: readonly VisibleEventKind[] | undefined
}

// A look reads no more events than these, whether its caller may see any of them or none.
const eventsALook = 2000
// Looks in vain that have more to look at follow each other no faster for one token.
const pauseInVainMs = 20
const pauseInVain = () => sleep(pauseInVainMs)

/** The event log, as far as each caller may see it, from any number on. */
export function createEventLog({ db, notifier, repositories, refresh }: Dependencies) {
  const tail = createTailCache({ db, notifier, refresh })
  const serialize = createKeyedMutex()

  async function look({ principal, repositoryId, kinds }: Selection, after: number, limit: number) {
    const caller = requireAlive(await refresh(principal))
    const { oldest, last } = await readExtent(db)
    if (after > last) throw notYet(after, last)
    const from = after === 0 ? oldest - 1 : after
    const upTo = await reach(repositoryId, from, last)
    const { username } = caller
    const rows = await listEvents(db, {
      after: from,
      upTo,
      limit,
      kinds: visibleKinds(caller, kinds),
      repositoryId,
      whose: isAdmin(caller) ? 'all' : { username, kindsWithoutRepository },
    })
    // Asked last: what is forgotten while it is read must not be missing without a word.
    if (after > 0) await requireKept(after)
    const events = rows.flatMap(({ name, ownerUsername, collaborator, ...row }) => {
      const entry = toEntry(row)
      const isCollaborator = collaborator !== null
      const standing = ownerUsername === null ? undefined : { ownerUsername, isCollaborator }
      return maySeeEvent(caller, entry, standing) ? [toLoggedEvent(entry, name)] : []
    })
    if (events.length === 0 && repositoryId !== undefined)
      requireSight(caller, await findRepositoryAudience(db, repositoryId))
    const end = rows.length === limit ? rows.at(-1)?.seq : undefined
    return { events, upTo: end ?? upTo, last }
  }

  async function reach(repositoryId: string | undefined, after: number, last: number) {
    if (repositoryId === undefined) return Math.min(last, after + eventsALook)
    return (await findNth(db, { repositoryId, after, nth: eventsALook })) ?? last
  }

  async function requireKept(after: number): Promise<void> {
    const { oldest } = await readExtent(db)
    if (after >= oldest - 1) return
    const detail = `The oldest event that is kept is ${oldest}; what was before it is lost to you. Go on with after=${oldest - 1}.`
    throw new Problem('events_forgotten', detail)
  }

  /** The same at the end of the log; undefined when that is not near enough. */
  async function lookAtTail(
    { principal, repositoryId, kinds }: Selection,
    after: number,
    limit: number,
  ): Promise<Seen | undefined> {
    const recent = await tail.after(after)
    if (!recent) return undefined
    const { entries, end, sight } = recent
    const caller = requireAlive(await sight.refresh(principal))
    const own = new Set(visibleKinds(caller, kinds))
    const events: LoggedEvent[] = []
    for (const entry of entries) {
      if (!own.has(entry.kind)) continue
      if (repositoryId !== undefined && entry.repositoryId !== repositoryId) continue
      const place =
        entry.repositoryId === null ? undefined : await sight.placeOf(entry.repositoryId)
      if (!maySeeEvent(caller, entry, standingIn(place, caller.username))) continue
      events.push(toLoggedEvent(entry, place?.name ?? null))
      if (events.length === limit) return { events, upTo: entry.seq }
    }
    if (events.length === 0 && repositoryId !== undefined)
      requireSight(caller, await sight.placeOf(repositoryId))
    return { events, upTo: end }
  }

  /** Looks at what is behind the end when it is the token's turn, one at a time: others get theirs, and all requests, in between. */
  function inTurn<T>({ id }: Principal, pause: () => Promise<void>, act: () => Promise<T>) {
    return serialize(id, () => pause().then(act))
  }

  /**
   * The events after a number and those to come, a piece with each call of `next`: as there are more, and none after
   * `idleMs` without any; undefined when the signal is aborted. `next` throws what `page` throws. Between two calls
   * nothing is kept of what was read.
   */
  function follow({ selection, after, limit, idleMs, signal }: Following) {
    let from = after
    let isNear = false
    let pause: (() => Promise<void>) | undefined

    async function lookBehind(): Promise<Seen | undefined> {
      if (signal.aborted) return undefined
      const { events, upTo, last } = await look(selection, from, limit)
      from = upTo
      isNear = upTo >= last
      const next = events.length > 0 ? breathe : pauseInVain
      pause = isNear ? undefined : next
      return { events, upTo }
    }

    /** Waits at the end of the log; undefined when it is not near any more. */
    async function wait(): Promise<Seen | undefined> {
      const deadline = performance.now() + idleMs
      const events = await notifier.until({ deadline, signal }, async () => {
        const recent = await lookAtTail(selection, from, limit)
        isNear = recent !== undefined
        if (!recent) return []
        from = recent.upTo
        return recent.events.length > 0 ? recent.events : undefined
      })
      return isNear ? { events: events ?? [], upTo: from } : undefined
    }

    return {
      async next(): Promise<Seen | undefined> {
        if (signal.aborted) return undefined
        const seen = isNear ? await wait() : undefined
        if (seen) return seen
        return pause ? inTurn(selection.principal, pause, lookBehind) : lookBehind()
      },
    }
  }

  return {
    /** The selection of a reader, and the access that it depends on. Throws `permission_missing` and `repository_not_found`. */
    async select(principal: Principal, { repository, kinds = eventKinds }: EventFilter) {
      const selection: Selection = { principal, kinds, repositoryId: undefined }
      if (repository === undefined) return { selection, access: undefined }
      const permission = repositoryPermissions.find((one) => holds(principal, one))
      if (!permission) {
        const list = repositoryPermissions.join(', ')
        throw new Problem('permission_missing', `This needs one of the permissions ${list}.`)
      }
      const { id } = await repositories.find(principal, repository, permission)
      const access: Access = { principal, permission, repository: { id } }
      return { selection: { ...selection, repositoryId: id }, access }
    },

    /** The number of the last event. */
    last: async () => (await readExtent(db)).last,

    /**
     * The next events after a number, 0 for the oldest that is kept, waiting for one for a time. Without a wait there
     * may be more though there are none. Throws `events_forgotten`, `invalid_request` for a number that is yet
     * to come, and what says that the caller's right has ended: `token_invalid`, `repository_not_found`.
     */
    async page({ selection, after, limit, waitMs, signal }: Page): Promise<Seen> {
      if (waitMs === 0) return look(selection, after, limit)
      const deadline = performance.now() + waitMs
      const following = follow({ selection, after, limit, idleMs: waitMs, signal })
      let found: Seen = { events: [], upTo: after }
      for (let seen = await following.next(); seen; seen = await following.next()) {
        found = seen
        if (seen.events.length > 0 || performance.now() >= deadline) break
      }
      return found
    },

    follow,
  }
}

function requireAlive(principal: Principal | undefined): Principal {
  if (principal) return principal
  throw new Problem('token_invalid', 'The token was deleted or has expired.')
}

function requireSight(principal: Principal, place: RepositoryAudience | undefined): void {
  const standing = standingIn(place, principal.username)
  if (standing && maySee(principal, standing)) return
  const detail = 'The repository is gone, or it is not yours to see any more.'
  throw new Problem('repository_not_found', detail)
}

function notYet(after: number, last: number): Problem {
  const detail = `is not a number of this log, the last one is ${last}; it may be from before a restore. Read from the oldest event on.`
  const errors = [{ pointer: '/after', detail }]
  return new Problem('invalid_request', `After ${after}: it ${detail}`, { errors })
}
