import type { Principal } from '#access/principal.ts'
import { Problem } from '#base/problem.ts'
import type { Database } from '#database/database.ts'
import { findObjects } from '#git/objects/object-stream.ts'
import type { Git } from '#git/process/git-process.ts'
import { zeroId } from '#git/refs/ref-name.ts'
import { type RefUpdate, resolveSymbolicRef } from '#git/refs/refs.ts'
import type { Repository } from '#repositories/repositories.ts'
import type { Push } from '../push/push.ts'
import type { GitLimiters } from '../requests/git-limiters.ts'
import { keysOf } from '../requests/git-request.ts'
import type { JournalEntry, Obstacle, PushJournal } from './push-journal.ts'
import { type PushLifecycle, UpdatesRefusedError } from './push-lifecycle.ts'
import { type FinishedPush, isUnfinished } from './push-store.ts'

/**
 * Undoes a push with a new push that restores its refs; returns the new push. Throws `push_not_undoable` and the
 * Problems of a push.
 */
export type Undo = (
  principal: Principal,
  repository: Repository,
  id: string,
  signal: AbortSignal,
) => Promise<JournalEntry>

type Dependencies = {
  db: Database
  git: Git
  pushes: Pick<PushLifecycle, 'apply' | 'sweep'>
  pushJournal: PushJournal
  limiters: Pick<GitLimiters, 'push'>
}

const maxNamedRefs = 5

export function createUndo(dependencies: Dependencies): Undo {
  const { db, git, pushes, pushJournal, limiters } = dependencies

  async function findPush(repository: Repository, id: string): Promise<FinishedPush> {
    // Its git may have ended a moment ago.
    await pushes.sweep(repository.id)
    if (await isUnfinished(db, repository.id, id))
      throw notUndoable('The push is still in progress. Try again when it has finished.')
    return pushJournal.get(repository, id)
  }

  async function toProblem(
    obstacle: Obstacle,
    undone: FinishedPush,
    repository: Repository,
  ): Promise<Problem> {
    if (obstacle === 'not-kept') {
      return notUndoable('The commits that this push overwrote or deleted are no longer retained.')
    }
    const named = await Promise.all(
      obstacle.moved.slice(0, maxNamedRefs).map(async (ref) => {
        const last = await pushJournal.lastOf(repository, ref)
        return last === undefined || last === undone.id ? ref : `${ref} (by the push ${last})`
      }),
    )
    const more = obstacle.moved.length - named.length
    const all = [...named, ...(more > 0 ? [`${more} more`] : [])].join(', ')
    return notUndoable(`These refs have changed since: ${all}.`)
  }

  async function explain(
    repository: Repository,
    undone: FinishedPush,
    updates: RefUpdate[],
    error: UpdatesRefusedError,
  ): Promise<Problem | undefined> {
    const obstacle = await pushJournal.obstacleTo(undone, repository)
    if (obstacle) return toProblem(obstacle, undone, repository)
    const wanted = updates.map(({ after }) => after).filter((after) => after !== zeroId)
    const found = await findObjects(git, repository.path, wanted)
    if (wanted.some((id) => !found.has(id)))
      return notUndoable('The commits that this push overwrote or deleted no longer exist.')
    if (error.reason === 'name-conflict')
      return notUndoable(
        'The name of one of its refs is a directory of another ref. Restore them one after the other.',
      )
    // This node may not see their new values yet.
    if (error.reason === 'moved')
      return notUndoable('Another request has changed its refs just now, or is about to.')
    return undefined
  }

  return async (principal, repository, id, signal) => {
    using _permit = await limiters.push.acquire(keysOf({ principal, repository }), signal)
    const push: Push = { principal, repository, via: 'undo', undoes: id, isAtomic: true }
    const undone = await findPush(repository, id)
    const obstacle = await pushJournal.obstacleTo(undone, repository)
    if (obstacle) throw await toProblem(obstacle, undone, repository)
    const updates = await reversed(undone, repository)
    const isFinished = await pushes.apply(push, updates).catch(async (error) => {
      if (!(error instanceof UpdatesRefusedError)) throw error
      throw (await explain(repository, undone, updates, error)) ?? error
    })
    if (!isFinished) throw finishedLater()
    return pushJournal.find(repository, push.id ?? '')
  }
}

// Symbolic refs with the same target move together; git must be given only the target.
async function reversed({ updates }: FinishedPush, { path }: Repository): Promise<RefUpdate[]> {
  const byTarget = new Map<string, RefUpdate>()
  for (const { ref, before, after } of updates) {
    const target = await resolveSymbolicRef(path, ref)
    byTarget.set(target, { ref: target, before: after, after: before })
  }
  return [...byTarget.values()]
}

function finishedLater(): Problem {
  const detail =
    'The push is undone. Its record and events follow when the database is available again. Do not repeat the request.'
  return new Problem('database_unavailable', detail, { retryAfterSeconds: 5 })
}

function notUndoable(detail: string): Problem {
  return new Problem('push_not_undoable', detail)
}
