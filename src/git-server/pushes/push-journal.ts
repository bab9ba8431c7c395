import { type Clock, dayMs } from '#base/clock.ts'
import { isId } from '#base/ids.ts'
import { Problem } from '#base/problem.ts'
import type { PlainSettings } from '#config/settings.ts'
import type { Database } from '#database/database.ts'
import type { Actor } from '#events/events.ts'
import { zeroId } from '#git/refs/ref-name.ts'
import { isOverwriting, type PushedUpdate, readRefs } from '#git/refs/refs.ts'
import type { Repository } from '#repositories/repositories.ts'
import {
  deleteFinished,
  type FinishedPush,
  findPushes,
  listPushSizes,
  listUnfinishedPushes,
} from './push-store.ts'

/** The journal of pushes and the refs that they changed. */
export type PushJournal = {
  /** Finds a push of a repository. Throws `push_not_found`. */
  get: (repository: Repository, id: string) => Promise<FinishedPush>
  /** A push as the API describes it. Throws `push_not_found`. */
  find: (repository: Repository, id: string) => Promise<JournalEntry>
  /** A page of the pushes before an id, newest first, limited in size; `isAll` when none are left. */
  list: (
    repository: Repository,
    page: { before: string; limit: number; ref: string | undefined },
  ) => Promise<{ pushes: JournalEntry[]; isAll: boolean }>
  /** The present obstacle to an undo, if any. */
  obstacleTo: (push: FinishedPush, repository: Repository) => Promise<Obstacle | undefined>
  /** The id of the last push that changed a ref, if it is known. */
  lastOf: (repository: Repository, ref: string) => Promise<string | undefined>
  /** Who has pushed what a ref points to, as far as it is known. */
  pusherOf: (repository: Repository, ref: string, id: string) => Promise<Actor | undefined>
  /** Whether refs may have moved by a push whose record is not finished. */
  hasUnfinished: (repository: Pick<Repository, 'id'>) => Promise<boolean>
  /** Deletes pushes older than the retention period, except those whose commits are still retained. */
  prune: () => Promise<void>
}

/** A push as the API describes it. */
export type JournalEntry = Pick<
  FinishedPush,
  'id' | 'via' | 'finishedAt' | 'keptUntil' | 'undoes'
> & {
  repoName: string
  actor: { id: string; username: string }
  pushedAt: number
  refs: (PushedUpdate & { created: boolean; deleted: boolean })[]
  undoable: boolean
}

type Dependencies = {
  db: Database
  settings: Pick<PlainSettings, 'eventsKeptDays'>
  clock: Clock
}

/** Why a push cannot be undone: refs have moved since, or the overwritten commits are no longer retained. */
export type Obstacle = { moved: string[] } | 'not-kept'

// In characters of JSON. A push that is longer than this gets a page of its own.
const pageMaxLength = 500_000
const pruneBatchSize = 1000

export function createPushJournal({ db, settings, clock }: Dependencies): PushJournal {
  /** The obstacle to an undo, given the present values of the refs that the push changed. */
  function obstacleTo(
    { updates, keptUntil }: FinishedPush,
    values: Map<string, string>,
  ): Obstacle | undefined {
    const moved = updates.filter(({ ref, after }) => values.get(ref) !== after)
    if (moved.length > 0) return { moved: moved.map(({ ref }) => ref) }
    const isKept = keptUntil !== null && keptUntil > clock.now()
    return updates.some(isOverwriting) && !isKept ? 'not-kept' : undefined
  }

  async function describe(repository: Repository, pushes: FinishedPush[]): Promise<JournalEntry[]> {
    const refs = new Set(pushes.flatMap(({ updates }) => updates.map(({ ref }) => ref)))
    const values = await readRefs(repository.path, [...refs])
    return pushes.map((push) => toPush(push, repository, obstacleTo(push, values) === undefined))
  }

  async function get({ id: repositoryId }: Repository, id: string): Promise<FinishedPush> {
    const [push] = isId(id) ? await findPushes(db, repositoryId, [id]) : []
    if (push) return push
    throw new Problem('push_not_found', `There is no push "${id}" in this repository.`)
  }

  return {
    get,

    async find(repository, id) {
      const [described] = await describe(repository, [await get(repository, id)])
      if (!described) throw new Error('push not described')
      return described
    },

    async list(repository, { before, limit, ref }) {
      const page = { before, limit: limit + 1, ref }
      const sizes = await listPushSizes(db, repository.id, page)
      const ids = sizes.slice(0, Math.min(limit, countFitting(sizes))).map(({ id }) => id)
      const pushes = ids.length > 0 ? await findPushes(db, repository.id, ids) : []
      return { pushes: await describe(repository, pushes), isAll: ids.length === sizes.length }
    },

    async obstacleTo(push, { path }) {
      const refs = push.updates.map(({ ref }) => ref)
      return obstacleTo(push, await readRefs(path, refs))
    },

    async lastOf({ id }, ref) {
      const [last] = await listPushSizes(db, id, { before: '', limit: 1, ref })
      return last?.id
    },

    hasUnfinished: async (repository) => (await listUnfinishedPushes(db, repository.id)).length > 0,

    async pusherOf(repository, ref, id) {
      const [last] = await listPushSizes(db, repository.id, { before: '', limit: 1, ref })
      const [push] = last ? await findPushes(db, repository.id, [last.id]) : []
      const isOf = push?.updates.some((update) => update.ref === ref && update.after === id)
      return push && isOf ? { id: push.actorId, username: push.actorUsername } : undefined
    },

    async prune() {
      const before = clock.now() - settings.eventsKeptDays * dayMs
      while ((await deleteFinished(db, before, pruneBatchSize)) > 0) {}
    },
  }
}

// Always at least one.
function countFitting(sizes: { size: number }[]): number {
  let sum = 0
  const tooMany = sizes.findIndex(({ size }, index) => {
    sum += size
    return index > 0 && sum > pageMaxLength
  })
  return tooMany === -1 ? sizes.length : tooMany
}

function toPush(push: FinishedPush, { name }: Repository, undoable: boolean): JournalEntry {
  const { id, actorId, actorUsername, via, judgedAt, finishedAt, keptUntil, undoes } = push
  return {
    id,
    repoName: name,
    actor: { id: actorId, username: actorUsername },
    via,
    pushedAt: judgedAt,
    finishedAt,
    refs: push.updates.map(toRef),
    undoable,
    keptUntil,
    undoes,
  }
}

function toRef({ ref, before, after, forced }: PushedUpdate) {
  return { ref, before, after, forced, created: before === zeroId, deleted: after === zeroId }
}
