import { setTimeout as sleep } from 'node:timers/promises'
import type { Clock } from '#base/clock.ts'
import type { FaultPoint } from '#base/fault-points.ts'
import { newId, newIdAfter } from '#base/ids.ts'
import type { Log } from '#base/log.ts'
import type { PlainSettings } from '#config/settings.ts'
import type { Db } from '#database/schema.ts'
import type { Publish } from '#events/events.ts'
import { bytesOfPacks } from '#git/objects/packs.ts'
import type { PushResult } from '#git/protocol/hook-channel.ts'
import { isConnected } from '#git/refs/ancestry.ts'
import { findForced } from '#git/refs/forced-updates.ts'
import { zeroId } from '#git/refs/ref-name.ts'
import {
  branchesOf,
  branchPrefix,
  type PushedUpdate,
  type RefUpdate,
  successorAmong,
} from '#git/refs/refs.ts'
import { enforceByteLimit } from '#repositories/namespace-limits.ts'
import type { Repository } from '#repositories/repositories.ts'
import type { ChangeOutcome, CommittedChange } from '#repositories/store/commit-change.ts'
import { type Decision, refusalTexts } from '#repositories/store/decide-updates.ts'
import { lockRepository } from '#repositories/store/ref-store.ts'
import type { SharedChanges, Store } from '#repositories/store/store.ts'
import {
  authorizeGuarded,
  defaultBranchDeletion,
  type PushAuthorization,
} from '../authorize-push/authorize-push.ts'
import type { Proposals } from '../push/proposal.ts'
import type { Push } from '../push/push.ts'
import { decideFormat } from '../push/push-holds.ts'
import { readPushedObjects, withPushLimits } from '../push/pushed-objects.ts'
import { createSharedDefaultBranches } from './default-branches.ts'
import { createSharedVersions } from './make-versions.ts'
import { toDefaultBranchEvent, toLeakEvent, toPushEvents } from './push-events.ts'
import { type PushLifecycle, UpdatesRefusedError } from './push-lifecycle.ts'
import { findLastPushId, findPushes, insertPush, toAllowedColumn } from './push-store.ts'
import { createSharedRetention } from './retained-commits.ts'

type Dependencies = PushAuthorization & {
  store: Store
  proposals: Proposals
  shared: SharedChanges
  publish: Publish
  settings: Pick<PlainSettings, 'undoDays'>
  clock: Clock
  faultPoint: FaultPoint
  log: Log
}

type Authorized = Awaited<ReturnType<typeof authorizeGuarded>>

/**
 * Pushes into a shared store: authorized, made durable and recorded with their events in git's pre-receive hook, while
 * their objects are in quarantine. So a cache never contains an object that is not durable.
 */
export function createSharedPushLifecycle(dependencies: Dependencies): PushLifecycle {
  const { shared, publish, git, settings, clock, faultPoint } = dependencies
  const retention = createSharedRetention(dependencies)
  const limitedGit = withPushLimits(git, settings)
  /** Committed changes whose objects are still in quarantine, by the ids of their pushes. */
  const quarantined = new Map<string, CommittedChange>()
  const versions = createSharedVersions({
    ...dependencies,
    onCommitted(push, change) {
      push.id = newId(clock.now())
      quarantined.set(push.id, change)
    },
  })

  async function commit(
    push: Push,
    updates: RefUpdate[],
    authorized: Authorized,
  ): Promise<ChangeOutcome> {
    const { quarantine } = push
    const { repository } = authorized
    const bytes = quarantine === undefined ? 0 : await bytesOfPacks(quarantine)
    const { objects, peeled, scopedGit } = await readPushedObjects(limitedGit, push, updates)
    const forced = push.isFastForward ? [] : await findForced(scopedGit, repository.path, updates)
    const wasForced = new Map(forced.map((update) => [update.ref, update.forced]))
    const toPushed = (update: RefUpdate): PushedUpdate => ({
      ...update,
      forced: wasForced.get(update.ref) ?? false,
    })
    let [id, now] = ['', 0]
    let recorded: ChangeOutcome | undefined
    const outcome = await shared
      .commit(
        {
          repositoryId: repository.id,
          updates,
          isAtomic: push.isAtomic ?? false,
          objects,
          peeled,
          pruneEpoch: push.repository.pruneEpoch,
          isConnected: () => isConnected(scopedGit, repository.path, updates),
          async begin(tx, { lfsLocks }) {
            // The upload of its objects and the wait for the lock may have taken minutes.
            await authorized.recheck()
            await decideFormat(tx, repository, updates)
            // From here on, the locked row keeps others from locking files.
            if (lfsLocks > 0) await authorized.refuseLocked(tx)
            const last = await findLastPushId(tx, repository.id)
            // Read once the repository is locked, which may have taken seconds.
            now = clock.now()
            id = newIdAfter(last, now)
            return { pushedAt: now }
          },
          firstHead: await firstHeadOf(push),
          check(locked, moved) {
            // An undo may delete the default branch that its push created: HEAD follows.
            if (push.via !== 'undo') refuseDefaultDeletion(repository, locked.head, moved)
          },
          retain: (moved) => retention.refsFor(id, moved.map(toPushed)),
          async record(tx, change, decisions) {
            await record(tx, { ...authorized, push, id, now, bytes, change, toPushed })
            recorded = { decisions, areObjectsStored: true, committed: change }
          },
        },
        quarantine,
      )
      .catch(async (error) => {
        const about = { id, repositoryId: repository.id }
        if (recorded && (await wasCommitted(shared, about))) return recorded
        throw error
      })
    if (outcome.committed) {
      push.id = id
      quarantined.set(id, outcome.committed)
    }
    return outcome
  }

  /** The default branch before the push that is undone, if that changed it. */
  async function firstHeadOf({ undoes, repository }: Push): Promise<string | undefined> {
    const [undone] =
      undoes === undefined ? [] : await findPushes(shared.db, repository.id, [undoes])
    return undone?.formerDefaultBranch ?? undefined
  }

  type PushRecord = Authorized & {
    push: Push
    id: string
    now: number
    /** The bytes of its packs. */
    bytes: number
    change: CommittedChange
    toPushed: (update: RefUpdate) => PushedUpdate
  }

  async function record(tx: Db, entry: PushRecord): Promise<void> {
    const { push, id, now, bytes, principal, repository, allowed, change, toPushed } = entry
    const updates = change.moved.map(toPushed)
    if (change.packs.length > 0) await enforceByteLimit(tx, repository.id, bytes)
    if (updates.length === 0) return
    await insertPush(tx, {
      id,
      repositoryId: repository.id,
      actorId: principal.id,
      actorUsername: principal.username,
      updates: JSON.stringify(updates),
      judgedAt: now,
      finishedAt: now,
      via: push.via,
      keptUntil: retention.until(updates, now),
      undoes: push.undoes ?? null,
      formerDefaultBranch: change.head?.former ?? null,
      defaultBranch: change.head?.branch ?? null,
      version: change.version,
      address: principal.origin?.address ?? null,
      allowedLeaks: toAllowedColumn(allowed),
      runOptions: push.runOptions ? JSON.stringify(push.runOptions) : null,
      landing: push.landing ? JSON.stringify(push.landing) : null,
    })
    const { name } = change
    const about = { actor: principal, repositoryId: repository.id }
    const events = toPushEvents({ ...about, pushId: id, via: push.via, name }, updates)
    const more = change.head ? [toDefaultBranchEvent(about, change.head)] : []
    const leak = { ...about, pushId: id, via: push.via, repositoryName: name }
    const leaks = allowed.length > 0 ? [toLeakEvent(leak, allowed)] : []
    const landed = push.landing && {
      ...{ ...about, ...push.landing, pushId: id, commit: updates[0]?.after ?? '', now },
    }
    const landings = landed ? await dependencies.proposals.land(tx, landed) : []
    await publish(tx, now, [...events, ...leaks, ...more, ...landings])
    faultPoint('shared-push.recorded')
  }

  /** Shows the refs of a push from now on; another request would do the same. */
  async function show(repositoryId: string, id: string | undefined): Promise<void> {
    const change = id === undefined ? undefined : quarantined.get(id)
    if (id === undefined || !change) return
    quarantined.delete(id)
    await shared.show(repositoryId, change)
  }

  async function authorizeAndCommit(push: Push, updates: RefUpdate[]) {
    const authorized = await authorizeGuarded(dependencies, push, updates)
    const outcome = await commit(push, updates, authorized)
    return { ...outcome, warnings: authorized.warnings }
  }

  return {
    async authorize(push, updates): Promise<PushResult | undefined> {
      if (push.proposal) return versions.authorize(push, updates)
      const { decisions, areObjectsStored, warnings } = await authorizeAndCommit(push, updates)
      faultPoint('shared-push.committed')
      // Git moves the objects out of the quarantine once the hook has succeeded.
      const isDeclined = !areObjectsStored
      return {
        results: decisions.map(toResult),
        isDeclined,
        warnings: [...warnings, ...toWarnings(decisions)],
      }
    },

    propose: versions.propose,
    makeVersion: versions.make,

    async finalize({ id, repository }) {
      await show(repository.id, id)
      faultPoint('shared-push.shown')
      return true
    },

    async apply(push, updates) {
      const { decisions } = await authorizeAndCommit(push, updates)
      const refused = decisions.filter(({ refusal }) => refusal !== undefined)
      await show(push.repository.id, push.id)
      const [first] = refused
      if (!first) return true
      const has = (...some: Decision['refusal'][]) =>
        refused.some(({ refusal }) => some.includes(refusal))
      const isMoved = has('stale', 'undeletable')
      const reason = has('name-conflict') ? 'name-conflict' : isMoved ? 'moved' : 'other'
      throw new UpdatesRefusedError(refused.map(describe).join('; '), { reason })
    },

    defaultBranches: createSharedDefaultBranches(dependencies),
    expire: retention.expire,
    sweep: async () => {},
    drain: async () => {},
  }
}

function refuseDefaultDeletion(repository: Repository, head: string, moved: RefUpdate[]): void {
  const isDeleted = moved.some(({ ref, after }) => ref === branchPrefix + head && after === zeroId)
  if (isDeleted && successorAmong(branchesOf(moved)) === undefined)
    throw defaultBranchDeletion(repository, head)
}

function toResult({ update, refusal }: Decision) {
  return { ref: update.ref, refusal: refusal && refusalTexts[refusal] }
}

function toWarnings(decisions: Decision[]): string[] {
  return decisions
    .filter(({ isAbsent, refusal }) => isAbsent && refusal === undefined)
    .map(({ update: { ref } }) => `deleting a non-existent ref: ${ref}`)
}

function describe({ update, refusal }: Decision): string {
  return `${update.ref}: ${refusal ? refusalTexts[refusal] : 'ok'}`
}

const patienceMs = 10_000
const pauseMs = 200

/**
 * Finds out whether a push was recorded by a transaction whose connection broke. The lock of the repository's row waits
 * for that transaction if it is still running. Throws the database's error when it does not respond in time.
 */
async function wasCommitted(
  { transaction }: Pick<SharedChanges, 'transaction'>,
  { id, repositoryId }: { id: string; repositoryId: string },
): Promise<boolean> {
  const deadline = performance.now() + patienceMs
  for (;;) {
    try {
      return await transaction(repositoryId, async (tx) => {
        await lockRepository(tx, repositoryId)
        return (await findPushes(tx, repositoryId, [id])).length > 0
      })
    } catch (error) {
      if (performance.now() > deadline) throw error
      await sleep(pauseMs)
    }
  }
}
