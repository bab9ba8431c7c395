import type { Principal } from '#access/principal.ts'
import type { Clock } from '#base/clock.ts'
import type { FaultPoint } from '#base/fault-points.ts'
import type { Log } from '#base/log.ts'
import { Problem } from '#base/problem.ts'
import type { Database } from '#database/database.ts'
import type { Nodes } from '#database/nodes/nodes.ts'
import type { BranchQueueRow, ChangeRow, Db, QueuedChangeRow } from '#database/schema.ts'
import type { Actor, Publish } from '#events/events.ts'
import { hiddenNameOf, trialName, zeroId } from '#git/refs/ref-name.ts'
import { readRefs } from '#git/refs/refs.ts'
import type { MergeChain } from '#git-server/api-writes/merge-chain.ts'
import type { CheckPush } from '#git-server/authorize-push/check-push.ts'
import type { Proposals } from '#git-server/push/proposal.ts'
import type { KeepCommits } from '#git-server/pushes/keep-commits.ts'
import type { PushLifecycle } from '#git-server/pushes/push-lifecycle.ts'
import type { Repositories, Repository } from '#repositories/repositories.ts'
import { lockRepositorySummary } from '#repositories/repository-summary-store.ts'
import type { CandidateRuns } from '#workflows/starting/candidate-runs.ts'
import { listChangesByNumber, updateChange } from '../change-store.ts'
import { deleteQueued, listQueued, updateBranchQueue } from './queued-store.ts'
import type { QueueWork, Trial } from './trial.ts'

export type QueueParts = {
  db: Database
  publish: Publish
  clock: Clock
  log: Log
  nodes: Pick<Nodes, 'own' | 'isRunning'>
  repositories: Pick<Repositories, 'reopen'>
  store: { open: (id: string) => Promise<string> }
  /** Returns a principal as of now; undefined when its token was deleted or has expired. */
  refresh: (principal: Principal) => Promise<Principal | undefined>
  mergeChain: MergeChain
  commits: KeepCommits
  applyUpdates: PushLifecycle['apply']
  finalizePushes: PushLifecycle['sweep']
  checkPush: CheckPush
  runs: CandidateRuns
  proposals: Pick<Proposals, 'land'>
  faultPoint: FaultPoint
}

/** A branch with a queue, as this node has read or written it last. */
export type BranchQueue = Omit<BranchQueueRow, 'work'> & { work: QueueWork }

/** A change of the queue with the rights to land it. */
export type Opened = {
  entry: QueuedChangeRow
  change: ChangeRow
  principal: Principal
  repository: Repository
}

/** The queue of a branch in its order, the changes in it by number, and the commit of the branch. */
export type WaitingChanges = {
  entries: QueuedChangeRow[]
  changes: ReadonlyMap<number, ChangeRow>
  tip: string
}

/** Why a change is removed from the queue. */
export type Removal = {
  reason: 'conflict' | 'failed' | 'refused' | 'superseded' | 'withdrawn'
  /** In a sentence. */
  detail: string
}

/** The removal of a change that cannot land in the version that was queued. */
export const superseded: Removal = {
  reason: 'superseded',
  detail: 'It has a newer version, or is not open any more.',
}

/** Thrown when another node has changed a queue meanwhile. */
export class QueueTakenError extends Error {
  override readonly name = 'QueueTakenError'
}

/** How long a node works on a queue without a sign of life before others take it over. */
const workMs = 60_000

type Written = Partial<Pick<BranchQueue, 'work' | 'size' | 'worker'>>

/** Removes a change from the queue, and says why. Call it last in a transaction: it publishes. */
export async function removeQueued(
  { publish, clock }: Pick<QueueParts, 'publish' | 'clock'>,
  tx: Db,
  entry: QueuedChangeRow,
  { reason, detail, title, by }: Removal & { title: string; by?: Actor },
): Promise<undefined> {
  const { repositoryId, number, version, target, username, actorId } = entry
  if (!(await deleteQueued(tx, entry))) return undefined
  const now = clock.now()
  await updateChange(tx, entry, { queueNote: detail, updatedAt: now })
  const data = { number, target, version, reason, detail, title }
  const actor = by ?? { id: actorId, username }
  await publish(tx, now, [{ kind: 'change.unqueued', actor, repositoryId, data }])
  return undefined
}

function columnsOf({ size, work, worker, workUntil }: BranchQueue) {
  return { size, work: JSON.stringify(work), worker, workUntil }
}

/** What the steps of a queue have in common. */
export function createQueueSteps(parts: QueueParts) {
  const { db, clock, nodes, repositories, store, refresh, checkPush, runs, commits } = parts

  /** Writes a queue with what belongs to the same step, which may publish at its end. Throws a QueueTakenError. */
  async function save(
    queue: BranchQueue,
    set: Written,
    also: (tx: Db) => Promise<Written | undefined> = async () => undefined,
  ): Promise<BranchQueue> {
    return db.transaction().execute(async (tx) => {
      await lockRepositorySummary(tx, queue.repositoryId)
      const { worker = nodes.own } = set
      const next = { ...queue, ...set, worker, workUntil: clock.now() + workMs }
      const written = await updateBranchQueue(tx, queue, columnsOf(next))
      if (written === undefined) throw new QueueTakenError()
      const rest = await also(tx)
      if (!rest) return { ...next, revision: written }
      const whole = { ...next, ...rest, revision: written }
      const revision = await updateBranchQueue(tx, whole, columnsOf(whole))
      return { ...whole, revision: revision ?? written }
    })
  }

  /** Removes a change from its queue, and says why. */
  function remove(
    queue: BranchQueue,
    entry: QueuedChangeRow,
    change: Pick<ChangeRow, 'title'> | undefined,
    why: Removal,
  ): Promise<BranchQueue> {
    const { title = '' } = change ?? {}
    return save(queue, {}, (tx) => removeQueued(parts, tx, entry, { ...why, title }))
  }

  async function openOrRefuse(
    entry: QueuedChangeRow,
    change: ChangeRow | undefined,
  ): Promise<Opened | Removal> {
    const { repositoryId, username, version, actorKind: kind, actorId: id } = entry
    if (change?.state !== 'open' || change.version !== version) return superseded
    const principal = await refresh({ kind, id, username, permissions: new Set() })
    if (!principal) {
      const detail = `The token with which ${username} has queued it is not valid any more.`
      return { reason: 'refused', detail }
    }
    try {
      const repository = await repositories.reopen(principal, { id: repositoryId }, 'repo:write')
      const { target: ref, number } = change
      const landing = { changes: [{ number, version }] }
      const intended = { ref, change: 'update', landing, isForQueue: true } as const
      const [refusal] = await checkPush(principal, repository, [intended])
      if (refusal) return { reason: 'refused', detail: refusal.message }
      return { entry, change, principal, repository }
    } catch (error) {
      if (!(error instanceof Problem)) throw error
      return { reason: 'refused', detail: error.message }
    }
  }

  return {
    save,

    remove,

    /** Reads what a change needs to land, apart from what is required of the commit; or removes one that may not land. */
    async open(
      queue: BranchQueue,
      entry: QueuedChangeRow,
      change: ChangeRow | undefined,
    ): Promise<Opened | BranchQueue> {
      const opened = await openOrRefuse(entry, change)
      return 'reason' in opened ? remove(queue, entry, change, opened) : opened
    },

    /** Reads the changes that wait for a branch, and the branch. */
    async readWaiting({ repositoryId, target }: BranchQueue): Promise<WaitingChanges> {
      const entries = await listQueued(db, { repositoryId, target })
      const numbers = entries.map(({ number }) => number)
      const changes = await listChangesByNumber(db, repositoryId, numbers)
      const path = await store.open(repositoryId)
      const tip = (await readRefs(path, [target])).get(target) ?? zeroId
      return { entries, changes: new Map(changes.map((one) => [one.number, one])), tip }
    },

    /** Ends a trial: cancels its runs, and deletes its hidden ref. */
    async drop(queue: BranchQueue, { id, runIds }: Trial): Promise<BranchQueue> {
      const { repositoryId, work } = queue
      await runs.cancel(runIds, 'Its changes land in another way, or not at all.')
      const repository = { id: repositoryId, path: await store.open(repositoryId) }
      await commits.release(repository, [hiddenNameOf(trialName(id))])
      return save(queue, { work: { ...work, trials: work.trials.filter((one) => one.id !== id) } })
    },
  }
}

export type QueueSteps = ReturnType<typeof createQueueSteps>
