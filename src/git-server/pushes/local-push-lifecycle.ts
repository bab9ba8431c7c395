import { setTimeout as sleep } from 'node:timers/promises'
import type { Principal } from '#access/principal.ts'
import type { Clock } from '#base/clock.ts'
import { createKeyedMutex } from '#base/concurrency/keyed-mutex.ts'
import type { FaultPoint } from '#base/fault-points.ts'
import { newId } from '#base/ids.ts'
import type { Log } from '#base/log.ts'
import type { PlainSettings } from '#config/settings.ts'
import type { Database } from '#database/database.ts'
import type { PushRow } from '#database/push-schema.ts'
import type { Publish } from '#events/events.ts'
import type { Git } from '#git/process/git-process.ts'
import type { PushResult } from '#git/protocol/hook-channel.ts'
import type { RefUpdate } from '#git/refs/refs.ts'
import type { Directories } from '#repositories/directories.ts'
import type { Protections } from '#repositories/protections.ts'
import type { Repositories } from '#repositories/repositories.ts'
import type { RepositoryHolds } from '#repositories/repository-holds.ts'
import { authorizeGuarded } from '../authorize-push/authorize-guarded.ts'
import { refuseDefaultDeletion } from '../authorize-push/authorize-push.ts'
import type { AllowedLeak, LeakGuard } from '../leak-guard/leak-guard.ts'
import type { Push } from '../push/push.ts'
import { toIntended } from './applied-updates.ts'
import { createApplyUpdates } from './apply-updates.ts'
import { createDefaultBranches } from './default-branches.ts'
import { createFinalizePush } from './finalize-push.ts'
import type { PushLifecycle } from './push-lifecycle.ts'
import {
  deleteUnfinished,
  insertPush,
  listUnfinishedPushes,
  listWithUnfinished,
  toAllowedColumn,
} from './push-store.ts'
import { createRetainedCommits } from './retained-commits.ts'
import { createRetries } from './retries.ts'

type Dependencies = {
  db: Database
  publish: Publish
  git: Git
  refresh: (principal: Principal) => Promise<Principal | undefined>
  repositories: Pick<Repositories, 'reopen'>
  protections: Pick<Protections, 'list'>
  hasSuccessfulRun: (repositoryId: string, commit: string, file: string) => Promise<boolean>
  directories: Pick<Directories, 'pathOf'>
  repositoryHolds: Pick<RepositoryHolds, 'acquire'>
  leakGuard: LeakGuard
  settings: Pick<PlainSettings, 'undoDays' | 'pushMemoryMaxBytes'>
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
export function createLocalPushLifecycle(dependencies: Dependencies): PushLifecycle {
  const { db, git, clock, faultPoint, log } = dependencies
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

  async function authorize(push: Push, updates: RefUpdate[]): Promise<PushResult | undefined> {
    const authorized = await authorizeGuarded(dependencies, push, updates)
    const { principal, repository, targets, allowed, warnings } = authorized
    // Earlier intents are compared with the refs before this push can move them.
    await exclusively(repository.id, async () => {
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
    const intended = await toIntended(git, repository.path, updates)
    const judgedAt = clock.now()
    push.id = newId(judgedAt)
    inProgress.add(push.id)
    open.add(push.id)
    known.set(push.id, push)
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
      address: principal.origin?.address ?? null,
      allowedLeaks: toAllowedColumn(allowed),
      runOptions: push.runOptions ? JSON.stringify(push.runOptions) : null,
    })
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
