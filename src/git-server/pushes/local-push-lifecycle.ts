import { setTimeout as sleep } from 'node:timers/promises'
import type { Principal } from '#access/principal.ts'
import type { Clock } from '#base/clock.ts'
import { createBackoff } from '#base/concurrency/backoff.ts'
import { createKeyedMutex } from '#base/concurrency/keyed-mutex.ts'
import { createSingleFlight } from '#base/concurrency/single-flight.ts'
import { createTaskGroup } from '#base/concurrency/task-group.ts'
import type { FaultPoint } from '#base/fault-points.ts'
import { newId } from '#base/ids.ts'
import type { Log } from '#base/log.ts'
import type { PlainSettings } from '#config/settings.ts'
import type { Database } from '#database/database.ts'
import type { NewPush, PushRow } from '#database/schema.ts'
import type { Publish } from '#events/events.ts'
import { bytesOfPacks } from '#git/objects/packs.ts'
import { type Git, GitError } from '#git/process/git-process.ts'
import type { PushResult } from '#git/protocol/hook-channel.ts'
import { moveRefs } from '#git/refs/move-refs.ts'
import type { RefUpdate } from '#git/refs/refs.ts'
import type { Directories } from '#repositories/directories/directories.ts'
import { enforceByteLimit } from '#repositories/namespace-limits.ts'
import type { RepositoryHolds } from '#repositories/repository-holds.ts'
import { lockSizes } from '#repositories/repository-size-store.ts'
import type { Store } from '#repositories/store/store.ts'
import {
  authorizeGuarded,
  type PushAuthorization,
  refuseDefaultDeletion,
} from '../authorize-push/authorize-push.ts'
import type { AllowedLeak } from '../leak-guard/leak-guard.ts'
import type { Proposals } from '../push/proposal.ts'
import type { Push } from '../push/push.ts'
import { decideFormat } from '../push/push-holds.ts'
import { toIntended } from './applied-updates.ts'
import { createDefaultBranches } from './default-branches.ts'
import { createFinalizePush } from './finalize-push.ts'
import { createLocalVersions } from './make-versions.ts'
import { type PushLifecycle, UpdatesRefusedError } from './push-lifecycle.ts'
import {
  deleteUnfinished,
  insertPush,
  listUnfinishedPushes,
  listWithUnfinished,
  toAllowedColumn,
} from './push-store.ts'
import { createRetainedCommits } from './retained-commits.ts'

export type LocalPushParts = PushAuthorization & {
  db: Database
  publish: Publish
  proposals: Proposals
  store: Pick<Store, 'packBytes'>
  directories: Pick<Directories, 'pathOf'>
  repositoryHolds: Pick<RepositoryHolds, 'acquire'>
  settings: Pick<PlainSettings, 'undoDays'>
  /** Strictly increasing: times show which pushes may have built on which. */
  clock: Clock
  faultPoint: FaultPoint
  log: Log
}

const drainPauseMs = 5

/**
 * Pushes whose refs git moves: authorized in git's hook, recorded as an intent, finalized with their events. After a
 * crash between moved refs and their events, the sweep compares intents with refs and finalizes the rest.
 */
export function createLocalPushLifecycle(dependencies: LocalPushParts): PushLifecycle {
  const { db, git, lfsLocks, clock, faultPoint, log } = dependencies
  const retainedCommits = createRetainedCommits(dependencies)
  const finalizePush = createFinalizePush({ ...dependencies, retainedCommits })
  const serialize = createKeyedMutex()
  const retries = createRetries((repositoryId) => sweep(repositoryId), log)
  // Pushes whose git process is running: the sweep leaves them alone.
  const inProgress = new Set<string>()
  // Those in progress, and those being finalized.
  const open = new Set<string>()
  // The pushes whose records are not finished, except those of an earlier process.
  const known = new Map<string, Push>()

  const versions = createLocalVersions({ ...dependencies, exclusively })

  async function authorize(push: Push, updates: RefUpdate[]): Promise<PushResult | undefined> {
    if (push.proposal) return versions.authorize(push, updates)
    const locksCreated = lfsLocks.created()
    const authorized = await authorizeGuarded(dependencies, push, updates)
    const { principal, repository, targets, allowed, warnings, recheck, refuseLocked } = authorized
    // Earlier intents are compared with the refs before this push can move them.
    await exclusively(repository.id, async () => {
      await recheck()
      if (lfsLocks.created() !== locksCreated) await refuseLocked(db)
      // An undo may delete the default branch that its push created: HEAD follows.
      if (push.via !== 'undo') await refuseDefaultDeletion(repository, updates, targets)
      await recordIntent(push, { principal, updates, allowed })
    })
    return warnings.length > 0 ? { warnings, isDeclined: false } : undefined
  }

  async function recordIntent(
    push: Push,
    {
      principal,
      updates,
      allowed,
    }: { principal: Principal; updates: RefUpdate[]; allowed: AllowedLeak[] },
  ): Promise<void> {
    const { repository } = push
    await decideFormat(db, repository, updates)
    const intended = await toIntended(git, repository.path, updates)
    const judgedAt = clock.now()
    push.id = newId(judgedAt)
    inProgress.add(push.id)
    open.add(push.id)
    const bytes = push.quarantine === undefined ? 0 : await bytesOfPacks(push.quarantine)
    const row: NewPush = {
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
      address: principal.origin?.address ?? null,
      allowedLeaks: toAllowedColumn(allowed),
      runOptions: push.runOptions ? JSON.stringify(push.runOptions) : null,
      landing: push.landing ? JSON.stringify(push.landing) : null,
      bytes,
    }
    if (bytes === 0) await insertPush(db, row)
    else
      await db.transaction().execute(async (tx) => {
        // A move into a namespace sees this push, or is seen by it.
        await lockSizes(tx, repository.id)
        await insertPush(tx, row)
        await enforceByteLimit(tx, repository.id, bytes)
      })
    known.set(push.id, push)
  }

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
    // Also when its record went with its repository.
    if (isFinished) known.delete(push.id)
    return isFinished
  }

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
    for (const push of await listUnfinishedPushes(db, repositoryId)) {
      if (inProgress.has(push.id)) continue
      await finalizePush(push, known.get(push.id))
      known.delete(push.id)
    }
  }

  function exclusively(repositoryId: string, work: () => Promise<void>): Promise<void> {
    return serialize(repositoryId, async () => {
      await finalizeEnded(repositoryId)
      await work()
    })
  }

  /** Deletes a push that git has refused as a whole. Its refs are not compared: another push may have set the same values. */
  async function discard({ id }: Push): Promise<void> {
    if (id === undefined) return
    try {
      await deleteUnfinished(db, id)
    } finally {
      inProgress.delete(id)
      open.delete(id)
      known.delete(id)
    }
  }

  /** Records a change without a git process of its own and finalizes it; retries when that fails. */
  async function recordAndFinalize(row: PushRow): Promise<void> {
    await insertPush(db, row)
    await finalizePush(row).catch((error) => {
      retries.schedule(row.repositoryId)
      throw error
    })
  }

  return {
    authorize,
    propose: versions.propose,
    makeVersion: versions.make,
    finalize,
    sweep,
    defaultBranches: createDefaultBranches({ db, exclusively, recordAndFinalize, clock }),
    expire: retainedCommits.expire,

    apply: createApplyUpdates({ ...dependencies, authorize, finalize, discard }),

    async drain() {
      while (open.size > 0) await sleep(drainPauseMs)
      await retries.stop()
    },
  }
}

type ApplyParts = Pick<PushLifecycle, 'authorize' | 'finalize'> & {
  git: Git
  repositoryHolds: Pick<RepositoryHolds, 'acquire'>
  /** Deletes the record of a push that git has refused as a whole. */
  discard: (push: Push) => Promise<void>
  faultPoint: FaultPoint
}

/** Phrases of git's messages about a ref whose name is the directory of another ref. */
const nameConflicts = [' exists; cannot create ', ' at the same time', 'there are still refs']

/** Makes updates with a git of the server's own: see PushLifecycle. */
function createApplyUpdates(parts: ApplyParts): PushLifecycle['apply'] {
  const { git, repositoryHolds, authorize, finalize, discard, faultPoint } = parts

  /** Moves refs together; returns git's error when it has refused that. */
  async function move(push: Push, updates: RefUpdate[]): Promise<GitError | undefined> {
    const { id, path } = push.repository
    await using hold = await repositoryHolds.acquire(id)
    await authorize(push, updates)
    const moves = updates.map(({ ref, before, after }) => ({ ref, from: before, to: after }))
    try {
      await moveRefs(git, { directory: path, watch: hold.watch }, moves)
      push.refused = []
      return undefined
    } catch (error) {
      // EEXIST: a ref is locked by another process, which may have moved it by now.
      const isUntouched = error instanceof GitError && (error.isRefusal || error.code === 'EEXIST')
      if (!isUntouched) throw error
      return error
    }
  }

  return async (push, updates) => {
    let refusal: GitError | undefined
    let isFinished = true
    try {
      refusal = await move(push, updates)
      if (!refusal) faultPoint('undo.moved')
    } finally {
      // After the hold is released: the leftovers of a killed git are then removed.
      if (refusal) await discard(push)
      else isFinished = await finalize(push)
    }
    if (!refusal) return isFinished
    const { message, code } = refusal
    const isNameConflict = nameConflicts.some((words) => message.includes(words))
    const reason = isNameConflict ? 'name-conflict' : code === 'EEXIST' ? 'moved' : 'other'
    throw new UpdatesRefusedError(message, { reason, cause: refusal })
  }
}

const pauses = { firstMs: 1000, maxMs: 30_000 }

/** Retries failed work with backoff, one attempt at a time for each repository, until it succeeds or is stopped. */
function createRetries(work: (repositoryId: string) => Promise<void>, log: Log) {
  const share = createSingleFlight<void>()
  const retrying = createTaskGroup()
  const stopping = new AbortController()
  const { signal } = stopping

  async function retry(repositoryId: string): Promise<void> {
    const backoff = createBackoff(pauses)
    for (;;) {
      // The timer must not keep the program alive.
      await sleep(backoff.nextMs(), undefined, { ref: false, signal }).catch(() => {})
      if (signal.aborted) return
      try {
        return await work(repositoryId)
      } catch (error) {
        log.warn({ err: error, repositoryId }, 'pushes not finalized; retrying')
      }
    }
  }

  return {
    /** Schedules retries for a repository, unless they are scheduled already. */
    schedule(repositoryId: string): void {
      if (!signal.aborted) void retrying.add(share(repositoryId, () => retry(repositoryId)))
    },

    /** Stops all retries and waits for running attempts. */
    async stop(): Promise<void> {
      stopping.abort()
      await retrying.settled()
    },
  }
}
