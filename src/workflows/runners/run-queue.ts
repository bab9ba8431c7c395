import type { Clock } from '#base/clock.ts'
import type { Notifier } from '#base/concurrency/notifier.ts'
import type { FaultPoint } from '#base/fault-points.ts'
import type { Log } from '#base/log.ts'
import { Problem } from '#base/problem.ts'
import type { Database } from '#database/database.ts'
import type { RunConclusion } from '#database/schema.ts'
import type { PublishRuns } from '../run-events.ts'
import { deleteArtifactsOf } from '../run-files/artifact-store.ts'
import { deleteJobsAndSteps, endJobsAndSteps } from '../run-job-store.ts'
import { detachLog } from '../run-log-store.ts'
import { deleteFailedWorkspaces } from '../run-shells/failed-workspace-store.ts'
import { findRunById, type ListedRun, listOverdue, listRunningOf, updateRun } from '../run-store.ts'
import { completeQueued } from '../starting/enqueue-run.ts'
import { addLog } from '../views/run-logs.ts'
import {
  type Claimant,
  type Claimed,
  createClaimRun,
  firstLeaseMs,
  type QueueRunner,
} from './claim-run.ts'

/** The queue of runs: leases them to runners, and takes them back from lost runners. */
export type Queue = {
  /** Waits up to `waitMs` for a run for a runner. */
  claim: (runner: QueueRunner, waitMs: number, signal: AbortSignal) => Promise<Claimed | undefined>
  /** Renews the lease and returns the run. Throws `run_not_found` when the runner has lost it. */
  renew: (claimant: Claimant) => Promise<ListedRun>
  /** Completes a run on behalf of its runner. */
  complete: (
    run: Pick<ListedRun, 'id' | 'attempt' | 'tokenHash'>,
    conclusion: RunConclusion,
    fault: string,
  ) => Promise<void>
  /** Hands back a run that its runner cannot continue. */
  release: (by: Claimant, why: { isLoss: boolean; reason: string }) => Promise<void>
  /** Takes back the runs of lost runners: those of `lostRunner` at once, others when their lease has expired. */
  sweep: (lostRunner?: string) => Promise<void>
  /** Finds the run of a runner. Throws `run_not_found` when the runner has lost it. */
  held: (claimant: Claimant) => Promise<ListedRun>
}

type Dependencies = {
  db: Database
  publishRuns: PublishRuns
  changes: Notifier
  clock: Clock
  log: Log
  faultPoint: FaultPoint
  /** The longest that a run may take, in seconds. */
  runSeconds: number
  baseUrl: () => string
}

/** The duration of a lease, in seconds. */
export const leaseSeconds = 60
// Up to this age, a run is queued again without a loss when its runner never contacted the server.
const silentLossMaxMs = 10 * 60_000
const maxLosses = 2
// Longer than the runner's own timeout for a cancellation.
const cancelTimeoutMs = 120_000
const overtimeMs = 120_000

/** The state of a run that its current runner still holds. */
export function running({
  id,
  attempt,
  tokenHash,
}: Pick<ListedRun, 'id' | 'attempt' | 'tokenHash'>) {
  return { id, attempt, status: 'running', ...(tokenHash !== null && { tokenHash }) } as const
}

export function createQueue(dependencies: Dependencies): Queue {
  const { db, publishRuns, changes, clock, log, faultPoint, runSeconds } = dependencies
  const claimRun = createClaimRun(dependencies)
  const leaseUntil = () => clock.now() + leaseSeconds * 1000

  async function renew({ id, tokenHash }: Claimant): Promise<ListedRun> {
    const held = { id, tokenHash, status: 'running' } as const
    const run = await updateRun(db, held, { leaseUntil: leaseUntil() })
    if (!run) throw runLost(id)
    return run
  }

  /** Takes a run back from its runner and queues it again; after a second loss it fails. */
  async function takeBack(
    run: Pick<ListedRun, 'id' | 'attempt' | 'tokenHash' | 'losses' | 'cancelReason' | 'runner'>,
    { isLoss, reason }: { isLoss: boolean; reason: string },
  ): Promise<void> {
    const losses = run.losses + (isLoss ? 1 : 0)
    if (run.cancelReason !== null) return complete(run, 'cancelled', run.cancelReason)
    if (losses >= maxLosses) return complete(run, 'failure', `${reason} This was the second time.`)
    await db.transaction().execute(async (tx) => {
      const now = clock.now()
      const queued = await updateRun(tx, running(run), {
        status: 'queued',
        tokenHash: null,
        runner: '',
        losses,
        entries: 0,
        queuedAt: now,
        startedAt: null,
        isolation: '',
      })
      if (!queued) return
      const attempt = { runId: run.id, attempt: run.attempt }
      await deleteJobsAndSteps(tx, attempt)
      await deleteArtifactsOf(tx, attempt)
      await deleteFailedWorkspaces(tx, attempt)
      await detachLog(tx, attempt)
      await addLog(tx, queued, [
        { step: null, prefix: '', text: `${reason} The run is queued again.\n` },
      ])
      await publishRuns(tx, now, [{ action: 'queued', run: queued }])
      // It may have been cancelled since `run` was read.
      if (queued.cancelReason !== null) {
        await completeQueued(tx, publishRuns, { id: run.id, reason: queued.cancelReason, now })
      }
    })
    faultPoint('run.taken-back')
    changes.notify(run.id)
    changes.notify('queue')
  }

  async function complete(
    run: Pick<ListedRun, 'id' | 'attempt' | 'tokenHash'>,
    conclusion: RunConclusion,
    fault: string,
  ): Promise<void> {
    await db.transaction().execute(async (tx) => {
      const now = clock.now()
      const end = { status: 'completed', conclusion, fault, completedAt: now } as const
      const ended = await updateRun(tx, running(run), { ...end, tokenHash: null })
      if (!ended) return
      const stepEnd = conclusion === 'failure' ? 'cancelled' : conclusion
      const attempt = { runId: run.id, attempt: run.attempt }
      await endJobsAndSteps(tx, attempt, { conclusion: stepEnd, at: now })
      await addLog(tx, ended, [{ step: null, prefix: '', text: `${fault}\n` }])
      await publishRuns(tx, now, [{ action: 'completed', run: ended }])
    })
    changes.notify(run.id)
    changes.notify('queue')
  }

  return {
    claim: (runner, waitMs, signal) =>
      changes.until('queue', { deadline: performance.now() + waitMs, signal }, () =>
        claimRun(runner),
      ),

    renew,
    complete,

    async release(by, why) {
      await takeBack(await renew(by), why)
    },

    async sweep(lostRunner) {
      const now = clock.now()
      const overdue = await listOverdue(db, {
        now,
        cancelledBefore: now - cancelTimeoutMs,
        startedBefore: now - runSeconds * 1000 - overtimeMs,
      })
      const lost = lostRunner === undefined ? [] : await listRunningOf(db, lostRunner)
      for (const run of new Map([...overdue, ...lost].map((one) => [one.id, one])).values()) {
        const isLost = run.leaseUntil < now || run.runner === lostRunner
        const wasHeard = run.leaseUntil !== (run.startedAt ?? 0) + firstLeaseMs
        // The run may be what killed `lostRunner`, and an old run is not retried forever.
        const isOld = now - run.createdAt > silentLossMaxMs
        const isLoss = wasHeard || run.runner === lostRunner || isOld
        log.warn({ runId: run.id, runner: run.runner, isLost }, 'run taken back from its runner')
        if (isLost) await takeBack(run, { isLoss, reason: `The runner ${run.runner} was lost.` })
        else if (run.cancelReason !== null) await complete(run, 'cancelled', run.cancelReason)
        else await complete(run, 'timed_out', 'The run exceeded its time limit.')
      }
    },

    async held({ id, tokenHash }) {
      const run = await findRunById(db, id)
      if (run?.status !== 'running' || run.tokenHash !== tokenHash) throw runLost(id)
      return run
    },
  }
}

function runLost(id: string): Problem {
  return new Problem('run_not_found', `The run ${id} is no longer assigned to this runner.`)
}
