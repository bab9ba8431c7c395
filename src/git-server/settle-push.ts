import type { Clock } from '../base/clock.ts'
import type { FaultPoint } from '../base/fault-points.ts'
import type { Log } from '../base/log.ts'
import type { Database } from '../database/database.ts'
import type { PushRow } from '../database/schema.ts'
import { publish } from '../events/events.ts'
import { findForced } from '../git/forced.ts'
import { type Git, GitFailure } from '../git/git-process.ts'
import type { RefUpdate } from '../git/refs.ts'
import type { Directories } from '../repositories/directories.ts'
import { findPlace } from '../repositories/place-store.ts'
import type { Tidying } from '../repositories/tidying.ts'
import { findApplied, intendedOf } from './applied-updates.ts'
import type { KeptTips } from './kept-tips.ts'
import { moveAsVisitor } from './move-as-visitor.ts'
import { deleteUnfinished, markFinished } from './push-store.ts'

type Dependencies = {
  db: Database
  git: Git
  directories: Pick<Directories, 'pathOf'>
  keptTips: Pick<KeptTips, 'keep'>
  tidying: Pick<Tidying, 'enter'>
  clock: Clock
  faultPoint: FaultPoint
  log: Log
}

/**
 * Brings a push whose git has ended to its end: what came to pass is told of, and what it overwrote is kept. Those of one
 * repository are settled one after the other, since what one is recorded with tells about the next.
 */
export function createSettlePush(dependencies: Dependencies) {
  const { db, git, directories, keptTips, clock, faultPoint, log } = dependencies

  /**
   * An undo comes to pass as a whole or not at all, but a git that is killed leaves refs half moved: the others are moved
   * after them, unless one is not what it was any more. All that has come to pass then.
   */
  async function moveRest(push: PushRow, applied: RefUpdate[]): Promise<RefUpdate[]> {
    const known = new Set(applied.map(({ ref }) => ref))
    const rest = intendedOf(push).filter(({ ref }) => !known.has(ref))
    if (rest.length === 0) return applied
    const moves = rest.map(({ ref, before, after }) => ({ ref, from: before, to: after }))
    try {
      await moveAsVisitor(dependencies, push.repositoryId, moves)
    } catch (error) {
      if (!(error instanceof GitFailure) || !error.isRefusal) throw error
      log.error({ err: error, pushId: push.id }, 'an undo was left half done')
      return applied
    }
    log.info({ pushId: push.id, refs: rest.length }, 'finished an undo that was half done')
    return [...applied, ...rest.map(({ ref, before, after }) => ({ ref, before, after }))]
  }

  return async (push: PushRow, isFastForward = false): Promise<void> => {
    const { id, repositoryId } = push
    const directory = directories.pathOf(repositoryId)
    const applied = await findApplied(db, directory, push)
    if (applied.length === 0) return deleteUnfinished(db, id)
    const moved = push.door === 'undo' ? await moveRest(push, applied) : applied
    const updates = isFastForward
      ? moved.map((update) => ({ ...update, forced: false }))
      : await findForced(git, directory, moved)
    // Before anybody is told of the push: what it overwrote can be had back from then on.
    const keptUntil = await keptTips.keep(push, updates)
    faultPoint('push.kept')
    const actor = { id: push.actorId, username: push.actorUsername }
    await db.transaction().execute(async (tx) => {
      const now = clock.now()
      if (!(await markFinished(tx, id, { updates, keptUntil, now }))) return
      const { name: repositoryName = '' } = (await findPlace(tx, repositoryId)) ?? {}
      const events = updates.map((update) => {
        const data = { ...update, pushId: id, door: push.door, repositoryName }
        return { kind: 'push', actor, repositoryId, data } as const
      })
      await publish(tx, now, events)
      faultPoint('push.published')
    })
    faultPoint('push.settled')
  }
}
