import { type Clock, dayMs } from '../../base/clock.ts'
import { isId } from '../../base/ids.ts'
import { Problem } from '../../base/problem.ts'
import type { PlainSettings } from '../../config/settings.ts'
import type { Database } from '../../database/database.ts'
import { zeroId } from '../../git/refs/ref-name.ts'
import { type PushedUpdate, readRefs } from '../../git/refs/refs.ts'
import { isOverwriting } from '../../git/refs/retained-refs.ts'
import type { Repository } from '../../repositories/repositories.ts'
import { deleteFinished, type FinishedPush, findPushes, listPushSizes } from './push-store.ts'

export type PushJournal = ReturnType<typeof createPushJournal>

type Dependencies = {
  db: Database
  settings: Pick<PlainSettings, 'eventsKeptDays'>
  clock: Clock
}

/** Why a push cannot be undone: refs have moved since, or what it overwrote is not kept any more. */
export type Obstacle = { moved: string[] } | 'not-kept'

// Of the JSON of a page; a push of very many refs has a page of its own.
const pageMaxLength = 500_000
const forgottenAtOnce = 1000

/** What pushes have done to the refs of repositories, as it can be read. */
export function createPushJournal({ db, settings, clock }: Dependencies) {
  /** What stands in the way of an undo, as the refs are now; the values are those of all that the push changed. */
  function obstacleTo(
    { updates, keptUntil }: FinishedPush,
    values: Map<string, string>,
  ): Obstacle | undefined {
    const moved = updates.filter(({ ref, after }) => values.get(ref) !== after)
    if (moved.length > 0) return { moved: moved.map(({ ref }) => ref) }
    const isKept = keptUntil !== null && keptUntil > clock.now()
    return updates.some(isOverwriting) && !isKept ? 'not-kept' : undefined
  }

  async function describe(repository: Repository, pushes: FinishedPush[]) {
    const refs = new Set(pushes.flatMap(({ updates }) => updates.map(({ ref }) => ref)))
    const values = await readRefs(repository.path, [...refs])
    return pushes.map((push) => toPush(push, repository, obstacleTo(push, values) === undefined))
  }

  /** A push of a repository. Throws `push_not_found`. */
  async function get({ id: repositoryId }: Repository, id: string): Promise<FinishedPush> {
    const [push] = isId(id) ? await findPushes(db, repositoryId, [id]) : []
    if (push) return push
    throw new Problem('push_not_found', `There is no push "${id}" in this repository.`)
  }

  return {
    get,

    /** A push as the API tells of it. */
    async find(repository: Repository, id: string) {
      const [described] = await describe(repository, [await get(repository, id)])
      if (!described) throw new Error('a push was lost')
      return described
    },

    /** The pushes before an id, newest first, as many as fit in an answer; and whether there are more. */
    async list(
      repository: Repository,
      { before, limit, ref }: { before: string; limit: number; ref: string | undefined },
    ) {
      const page = { before, limit: limit + 1, ref }
      const sizes = await listPushSizes(db, repository.id, page)
      const ids = sizes.slice(0, Math.min(limit, countFitting(sizes))).map(({ id }) => id)
      const pushes = ids.length > 0 ? await findPushes(db, repository.id, ids) : []
      return { pushes: await describe(repository, pushes), isAll: ids.length === sizes.length }
    },

    /** What stands in the way of an undo at this moment. */
    async obstacleTo(push: FinishedPush, { path }: Repository): Promise<Obstacle | undefined> {
      const refs = push.updates.map(({ ref }) => ref)
      return obstacleTo(push, await readRefs(path, refs))
    },

    /** The id of the last push that changed a ref, if it is known. */
    async lastOf({ id }: Repository, ref: string): Promise<string | undefined> {
      const [last] = await listPushSizes(db, id, { before: '', limit: 1, ref })
      return last?.id
    },

    /** Forgets what happened too long ago, unless something is still kept of it. */
    async forget(): Promise<void> {
      const before = clock.now() - settings.eventsKeptDays * dayMs
      while ((await deleteFinished(db, before, forgottenAtOnce)) > 0) {}
    },
  }
}

// At least one, however long it is.
function countFitting(sizes: { size: number }[]): number {
  let sum = 0
  const tooMany = sizes.findIndex(({ size }, index) => {
    sum += size
    return index > 0 && sum > pageMaxLength
  })
  return tooMany === -1 ? sizes.length : tooMany
}

function toPush(push: FinishedPush, { name }: Repository, undoable: boolean) {
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
