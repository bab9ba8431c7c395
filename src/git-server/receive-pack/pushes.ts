import { setTimeout as sleep } from 'node:timers/promises'
import type { Principal } from '../../access/principal.ts'
import { type Clock, increasing } from '../../base/clock.ts'
import type { FaultPoint } from '../../base/fault-points.ts'
import { newId } from '../../base/ids.ts'
import type { Log } from '../../base/log.ts'
import { Problem } from '../../base/problem.ts'
import { createKeyedMutex } from '../../concurrency/keyed-mutex.ts'
import type { Database } from '../../database/database.ts'
import type { PushRow, Via } from '../../database/schema.ts'
import type { Actor } from '../../events/events.ts'
import type { Git } from '../../git/process/git-process.ts'
import { branchPrefix, hasBranch, listBranches } from '../../git/refs/default-branch.ts'
import { findObjects } from '../../git/refs/forced-updates.ts'
import { isRefName, refNameFault, zeroId } from '../../git/refs/ref-name.ts'
import {
  type RefUpdate,
  readDefaultBranch,
  readRefs,
  resolveSymbolicRefs,
} from '../../git/refs/refs.ts'
import type { Directories } from '../../repositories/directories.ts'
import type { Protections } from '../../repositories/protections.ts'
import type { Repositories, Repository } from '../../repositories/repositories.ts'
import type { RepositoryHolds } from '../../repositories/repository-holds.ts'
import { type IntendedUpdate, intendedOf } from './applied-updates.ts'
import { createFinalizePush } from './finalize-push.ts'
import { deleteUnfinished, insertPush, listUnfinished, listWithUnfinished } from './push-store.ts'
import type { RetainedCommits } from './retained-commits.ts'
import { createRetries } from './retries.ts'

export type Pushes = ReturnType<typeof createPushes>

const drainPauseMs = 5

/** A push, from the start of its git process. */
export type Push = {
  principal: Principal
  repository: Repository
  via: Via
  /** The id of the push that it undoes. */
  undoes?: string
  /** Whether it is known to be a single fast-forward. */
  isFastForward?: boolean | undefined
  id?: string
}

type Dependencies = {
  db: Database
  git: Git
  /** Reads the principal again; undefined when its token or key is no longer valid. */
  refresh: (principal: Principal) => Promise<Principal | undefined>
  repositories: Repositories
  protections: Protections
  directories: Directories
  retainedCommits: Pick<RetainedCommits, 'retain'>
  repositoryHolds: Pick<RepositoryHolds, 'acquire'>
  clock: Clock
  faultPoint: FaultPoint
  log: Log
}

/**
 * The life of a push: authorized in git's hook, recorded as an intent, finalized with its events. After a crash
 * between moved refs and their events, the sweep compares intents with refs and finalizes the rest.
 */
export function createPushes(dependencies: Dependencies) {
  const { db, refresh, repositories, protections, faultPoint, log } = dependencies
  // Strictly increasing times show which pushes may have built on which.
  const clock = increasing(dependencies.clock)
  const finalizePush = createFinalizePush({ ...dependencies, clock })
  const serialize = createKeyedMutex()
  const retries = createRetries((repositoryId) => sweep(repositoryId), log)
  // Pushes whose git process is running: the sweep leaves them alone.
  const inProgress = new Set<string>()
  // Those in progress, and those being finalized.
  const open = new Set<string>()
  // Open pushes that are known to be fast-forwards.
  const fastForwards = new Set<string>()

  /** Authorizes a push by the current permissions and branch protections, and records its intent. */
  async function authorize(push: Push, updates: RefUpdate[]): Promise<void> {
    const principal = await refresh(push.principal)
    if (!principal) {
      throw new Problem('token_invalid', 'The token or key was deleted or has expired.')
    }
    const repository = await repositories.reopen(principal, push.repository, 'repo:write')
    const ruleFor = await protections.ruleFor(repository)
    const names = updates.map(({ ref }) => ref)
    for (const name of names) {
      if (!isRefName(name)) throw new Problem('ref_name_refused', `"${name}" is not a ref name.`)
    }
    // A push to a symbolic ref moves the ref that it points to.
    const targets = await resolveSymbolicRefs(repository.path, names)
    for (const ref of names) {
      for (const name of new Set([ref, targets.get(ref) ?? ref])) {
        refuseBadName(name)
        if (!repository.asOwner) refuseProtected(name, ruleFor)
      }
    }
    await serialize(repository.id, async () => {
      // Earlier intents are compared with the refs before this push can move them.
      await finalizeEnded(repository.id)
      // An undo may delete the default branch that its push created: HEAD follows.
      if (push.via !== 'undo') await refuseDefaultDeletion(repository, updates, targets)
      await recordIntent(push, { principal, updates })
    })
  }

  async function recordIntent(
    push: Push,
    { principal, updates }: { principal: Principal; updates: RefUpdate[] },
  ): Promise<void> {
    const { repository } = push
    const names = updates.map(({ ref }) => ref)
    const values = await readRefs(repository.path, names)
    const intended = await toIntended(repository.path, updates, values)
    const judgedAt = clock.now()
    push.id = newId(judgedAt)
    inProgress.add(push.id)
    open.add(push.id)
    if (push.isFastForward) fastForwards.add(push.id)
    await insertPush(db, {
      id: push.id,
      repositoryId: repository.id,
      actorId: principal.id,
      actorUsername: principal.username,
      updates: JSON.stringify(intended),
      judgedAt,
      finishedAt: null,
      via: push.via,
      keptUntil: null,
      undoes: push.undoes ?? null,
      formerDefaultBranch: null,
      defaultBranch: null,
    })
  }

  async function toIntended(
    directory: string,
    updates: RefUpdate[],
    values: Map<string, string>,
  ): Promise<IntendedUpdate[]> {
    const isStale = ({ ref, before }: RefUpdate) => values.get(ref) !== before
    const claimed = updates
      .filter((update) => update.after === zeroId && isStale(update))
      .map(({ before }) => before)
      .filter((before) => before !== zeroId)
    const found =
      claimed.length > 0 ? await findObjects(dependencies.git, directory, claimed) : new Map()
    return updates.map((update): IntendedUpdate => {
      const { ref, before, after } = update
      const value = values.get(ref) ?? zeroId
      // Git only warns about it and updates the other refs.
      if (after === zeroId && value === zeroId) return { ...update, isAbsent: true }
      if (!isStale(update)) return update
      // Git ignores the old value of a deletion when it does not have that object.
      if (after === zeroId && !found.has(before)) return { ref, before: value, after }
      return { ...update, isStale: true }
    })
  }

  async function refuseDefaultDeletion(
    { path, name }: Repository,
    updates: RefUpdate[],
    targets: Map<string, string>,
  ): Promise<void> {
    const deleted = updates.filter(({ after }) => after === zeroId)
    if (deleted.length === 0) return
    const branch = await readDefaultBranch(path)
    const isDefault = ({ ref }: RefUpdate) => (targets.get(ref) ?? ref) === branchPrefix + branch
    if (!deleted.some(isDefault) || !(await hasBranch(path, branch))) return
    throw new Problem(
      'default_branch_deletion',
      `"${branch}" is the default branch, which cannot be deleted. Change the default branch first: ` +
        `PATCH /repos/${name} with {"defaultBranch": "another branch"}, as the owner or an admin.`,
    )
  }

  /**
   * Changes the default branch to one that exists, or to any while there is none. Throws `ref_not_found`. Like a push
   * it is recorded before anything moves, and after a crash the sweep finalizes it.
   */
  async function changeDefaultBranch(
    actor: Actor,
    repository: Repository,
    branch: string,
  ): Promise<void> {
    const { id: repositoryId, path } = repository
    await serialize(repositoryId, async () => {
      await finalizeEnded(repositoryId)
      const former = await readDefaultBranch(path)
      if (former === branch) return
      await requireBranch(repository, branch)
      const now = clock.now()
      const row: PushRow = {
        id: newId(now),
        repositoryId,
        actorId: actor.id,
        actorUsername: actor.username,
        updates: '[]',
        judgedAt: now,
        finishedAt: null,
        via: '',
        keptUntil: null,
        undoes: null,
        formerDefaultBranch: former,
        defaultBranch: branch,
      }
      await insertPush(db, row)
      await finalizePush(row).catch((error) => {
        retries.schedule(repositoryId)
        throw error
      })
    })
  }

  async function requireBranch({ id, path }: Repository, branch: string): Promise<void> {
    const isThere = await hasBranch(path, branch)
    if (!isThere && (await listBranches(path)).length > 0) throw branchNotFound(branch)
    const isDeletion = ({ ref, after }: RefUpdate) =>
      ref === branchPrefix + branch && after === zeroId
    const unfinished = await listUnfinished(db, id)
    if (unfinished.flatMap(intendedOf).some(isDeletion)) throw branchNotFound(branch)
  }

  /**
   * Marks a push finished and publishes its updates, once git has moved its refs or has ended. False when that failed:
   * it is then retried until it succeeds.
   */
  async function finalize(push: Push): Promise<boolean> {
    if (push.id === undefined) return true // Never authorized, or refused.
    inProgress.delete(push.id)
    faultPoint('push.moved')
    const isFinished = await sweep(push.repository.id).then(
      () => true,
      (error) => {
        // The refs have moved and the intent is recorded, so a later attempt can finish it.
        log.error({ err: error, pushId: push.id }, 'push not finalized; retrying')
        retries.schedule(push.repository.id)
        return false
      },
    )
    open.delete(push.id)
    fastForwards.delete(push.id)
    return isFinished
  }

  /** Finalizes or discards every unfinished push whose git has ended, in one repository or in all. */
  async function sweep(repositoryId?: string): Promise<void> {
    if (repositoryId !== undefined)
      return serialize(repositoryId, () => finalizeEnded(repositoryId))
    for (const id of await listWithUnfinished(db)) {
      await sweep(id).catch((error) =>
        // A damaged repository must not block the others.
        log.error({ err: error, repositoryId: id }, 'pushes not finalized'),
      )
    }
  }

  async function finalizeEnded(repositoryId: string): Promise<void> {
    for (const push of await listUnfinished(db, repositoryId)) {
      if (!inProgress.has(push.id)) await finalizePush(push, fastForwards.has(push.id))
    }
  }

  /** Deletes a push that git has refused as a whole. Its refs are not compared: another push may have set the same values. */
  async function discard({ id }: Push): Promise<void> {
    if (id === undefined) return
    try {
      await deleteUnfinished(db, id)
    } finally {
      inProgress.delete(id)
      open.delete(id)
      fastForwards.delete(id)
    }
  }

  return {
    authorize,
    discard,
    changeDefaultBranch,

    /** Throws `ref_not_found` for a branch that cannot become the default one. */
    requireBranch,

    /** Waits until all pushes are finalized; one that fails is left to the next start of the server. */
    async drain(): Promise<void> {
      while (open.size > 0) await sleep(drainPauseMs)
      await retries.stop()
    },

    finalize,
    sweep,
  }
}

function branchNotFound(branch: string): Problem {
  return new Problem(
    'ref_not_found',
    `There is no branch "${branch}" in this repository. Push it first.`,
  )
}

function refuseBadName(ref: string): void {
  const fault = refNameFault(ref)
  if (fault)
    throw new Problem('ref_name_refused', `The ref "${ref}" is refused: its name ${fault}.`)
}

function refuseProtected(ref: string, ruleFor: (branch: string) => string | undefined): void {
  const [, branch] = /^refs\/heads\/(.+)$/s.exec(ref) ?? []
  const rule = branch === undefined ? undefined : ruleFor(branch)
  if (rule === undefined) return
  throw new Problem(
    'branch_protected',
    `The branch "${branch}" is protected by the rule "${rule}": only the owner of the repository or an admin may change it.`,
  )
}
