import { join } from 'node:path'
import type { Clock } from '#base/clock.ts'
import type { FaultPoint } from '#base/fault-points.ts'
import type { Log } from '#base/log.ts'
import type { Database } from '#database/database.ts'
import type { PushRow } from '#database/schema.ts'
import type { Event, Publish } from '#events/events.ts'
import { knownPackBytes } from '#git/objects/packs.ts'
import { type Git, GitError } from '#git/process/git-process.ts'
import { findForced } from '#git/refs/forced-updates.ts'
import { setDefaultBranch } from '#git/refs/move-refs.ts'
import {
  defaultBranchAfter,
  hasBranch,
  listBranches,
  type RefUpdate,
  readDefaultBranch,
} from '#git/refs/refs.ts'
import { isThere } from '#repositories/directories/deleted-directories.ts'
import type { Directories } from '#repositories/directories/directories.ts'
import type { RepositoryHolds } from '#repositories/repository-holds.ts'
import { measureRepository } from '#repositories/repository-sizes.ts'
import { isHeadChosen, markHeadChosen, recordPushed } from '#repositories/repository-store.ts'
import { findRepositorySummary } from '#repositories/repository-summary-store.ts'
import type { Landing, Proposals } from '../push/proposal.ts'
import type { Push } from '../push/push.ts'
import { findApplied, intendedOf } from './applied-updates.ts'
import { toDefaultBranchEvent, toLeakEvent, toPushEvents } from './push-events.ts'
import {
  type DefaultBranchChange,
  deleteUnfinished,
  findPushes,
  markFinished,
  recordDefaultBranch,
} from './push-store.ts'
import type { RetainedCommits } from './retained-commits.ts'
import { moveHeldRefs } from './retained-commits.ts'

type Dependencies = {
  db: Database
  publish: Publish
  git: Git
  proposals: Pick<Proposals, 'land'>
  directories: Pick<Directories, 'pathOf'>
  retainedCommits: Pick<RetainedCommits, 'retain'>
  repositoryHolds: Pick<RepositoryHolds, 'acquire'>
  clock: Clock
  faultPoint: FaultPoint
  log: Log
}

/**
 * Finalizes a push whose git has ended: publishes the applied updates and retains the commits that they overwrote.
 * Pushes of one repository must be finalized one after another: the record of one determines what the next applied.
 */
export function createFinalizePush(dependencies: Dependencies) {
  const { db, publish, git, proposals, directories, retainedCommits, repositoryHolds } =
    dependencies
  const { clock, faultPoint, log } = dependencies

  /**
   * Completes a partial undo. An undo is atomic, but a killed git may have moved only some refs; the others are moved
   * now unless one has changed since. Returns all applied updates.
   */
  async function completeUndo(push: PushRow, applied: RefUpdate[]): Promise<RefUpdate[]> {
    const known = new Set(applied.map(({ ref }) => ref))
    const rest = intendedOf(push).filter(({ ref }) => !known.has(ref))
    if (rest.length === 0) return applied
    const moves = rest.map(({ ref, before, after }) => ({ ref, from: before, to: after }))
    try {
      await moveHeldRefs(dependencies, push.repositoryId, moves)
    } catch (error) {
      if (!(error instanceof GitError) || !error.isRefusal) throw error
      log.error({ err: error, pushId: push.id }, 'undo left incomplete')
      return applied
    }
    log.info({ pushId: push.id, refs: rest.length }, 'incomplete undo completed')
    return [...applied, ...rest.map(({ ref, before, after }) => ({ ref, before, after }))]
  }

  /** The change of the default branch that a push causes; undefined when there is none. */
  async function decideDefaultBranch(
    { repositoryId, undoes }: PushRow,
    directory: string,
    moved: RefUpdate[],
  ): Promise<DefaultBranchChange | undefined> {
    const former = await readDefaultBranch(directory)
    const branch = await defaultBranchAfter(former, moved, {
      isThere: () => hasBranch(directory, former),
      isChosen: () => isHeadChosen(db, repositoryId),
      listBranches: () => listBranches(directory),
      async ofEmpty() {
        const [undone] = undoes === null ? [] : await findPushes(db, repositoryId, [undoes])
        return undone?.formerDefaultBranch ?? undefined
      },
    })
    return branch === former ? undefined : { former, branch }
  }

  /** Sets HEAD as recorded. Idempotent. */
  async function moveHead(repositoryId: string, branch: string): Promise<void> {
    faultPoint('default-branch.recorded')
    await using hold = await repositoryHolds.acquire(repositoryId)
    const directory = directories.pathOf(repositoryId)
    await setDefaultBranch(git, { directory, watch: hold.watch }, branch)
    faultPoint('default-branch.moved')
  }

  /** Finalizes a change of the default branch that was requested without a push. */
  async function finalizeDefaultBranch(
    push: PushRow,
    { former, branch }: DefaultBranchChange,
  ): Promise<void> {
    try {
      await moveHead(push.repositoryId, branch)
    } catch (error) {
      // Git would refuse it every time, and all later pushes would wait for it.
      if (error instanceof GitError && error.isRefusal) await deleteUnfinished(db, push.id)
      throw error
    }
    await db.transaction().execute(async (tx) => {
      if (!(await deleteUnfinished(tx, push.id))) return
      await markHeadChosen(tx, push.repositoryId)
      await publish(tx, clock.now(), [toDefaultBranchEvent(aboutOf(push), { former, branch })])
    })
  }

  // The row is read only when there is no directory: it is another query for each push.
  async function isDeleted(directory: string, repositoryId: string): Promise<boolean> {
    if (await isThere(join(directory, 'HEAD'))) return false
    return (await findRepositorySummary(db, repositoryId)) === undefined
  }

  return async (
    push: PushRow,
    { isFastForward, refused }: Pick<Push, 'isFastForward' | 'refused'> = {},
  ): Promise<void> => {
    const { id, repositoryId } = push
    const directory = directories.pathOf(repositoryId)
    const recorded = recordedDefaultBranch(push)
    if (recorded && intendedOf(push).length === 0) return finalizeDefaultBranch(push, recorded)
    const applied = await findApplied(db, directory, push, refused)
    // Its refs are elsewhere: the push is finalized when the repository is restored.
    if (await isDeleted(directory, repositoryId)) return
    if (applied.length === 0) {
      await deleteUnfinished(db, id)
      // Git may have stored its objects before it refused its refs.
      const packBytes = () => knownPackBytes(directory)
      if (push.bytes > 0) await measureRepository({ db, store: { packBytes } }, repositoryId)
      return
    }
    const moved = push.via === 'undo' ? await completeUndo(push, applied) : applied
    const updates = isFastForward
      ? moved.map((update) => ({ ...update, forced: false }))
      : await findForced(git, directory, moved)
    const change = recorded ?? (await decideDefaultBranch(push, directory, moved))
    if (change) {
      // Recorded first: after a crash, HEAD alone does not show that this push moved it.
      if (!recorded) await recordDefaultBranch(db, id, change)
      await moveHead(repositoryId, change.branch)
    }
    // Before the events are published: from then on, clients may undo the push.
    const keptUntil = await retainedCommits.retain(push, updates)
    faultPoint('push.kept')
    await db.transaction().execute(async (tx) => {
      const now = clock.now()
      if (!(await markFinished(tx, id, { updates, keptUntil, now }))) return
      await recordPushed(tx, repositoryId, { pushedAt: push.judgedAt, bytes: push.bytes })
      const { name = '' } = (await findRepositorySummary(tx, repositoryId)) ?? {}
      const about = { ...aboutOf(push), pushId: id, via: push.via, name }
      const events = toPushEvents(about, updates)
      const more = change ? [toDefaultBranchEvent(aboutOf(push), change)] : []
      const landing = landingOf(push)
      const commit = updates[0]?.after ?? ''
      const landings = landing
        ? await proposals.land(tx, { ...aboutOf(push), ...landing, pushId: id, commit, now })
        : []
      await publish(tx, now, [...events, ...leakEventsOf(push, name), ...more, ...landings])
      faultPoint('push.published')
    })
    faultPoint('push.settled')
  }
}

function recordedDefaultBranch(push: PushRow): DefaultBranchChange | undefined {
  const { formerDefaultBranch: former, defaultBranch: branch } = push
  return former !== null && branch !== null ? { former, branch } : undefined
}

function aboutOf({ repositoryId, actorId, actorUsername, via, address }: PushRow) {
  const isByGit = via === 'http' || via === 'ssh'
  // Commands on the server have no address.
  const origin = address === null ? undefined : { via: isByGit ? via : ('api' as const), address }
  return { actor: { id: actorId, username: actorUsername, origin }, repositoryId }
}

function landingOf({ landing }: PushRow): Landing | undefined {
  // Only the lifecycle of pushes writes it.
  return landing === null ? undefined : JSON.parse(landing)
}

function leakEventsOf(push: PushRow, repositoryName: string): Event[] {
  if (push.allowedLeaks === null) return []
  const about = { ...aboutOf(push), pushId: push.id, via: push.via, repositoryName }
  return [toLeakEvent(about, JSON.parse(push.allowedLeaks))]
}
