import { randomBytes } from 'node:crypto'
import type { Clock } from '../base/clock.ts'
import type { FaultPoint } from '../base/fault-points.ts'
import type { Log } from '../base/log.ts'
import { Problem } from '../base/problem.ts'
import { hashToken } from '../base/token-string.ts'
import type { Notifier } from '../concurrency/notifier.ts'
import type { Database } from '../database/database.ts'
import type { RunConclusion, RunRow } from '../database/schema.ts'
import { completeQueued } from './enqueue.ts'
import { publishRun } from './run-events.ts'
import { deleteJobsAndSteps, endJobsAndSteps } from './run-job-store.ts'
import { detachLog } from './run-log-store.ts'
import { addLog } from './run-logs.ts'
import {
  findRunById,
  type ListedRun,
  listGroups,
  listInGroups,
  listOverdue,
  listRunningOf,
  listUnfinished,
  lockRuns,
  type Unfinished,
  updateRun,
} from './run-store.ts'

export type Queue = ReturnType<typeof createQueue>

type Dependencies = {
  db: Database
  changes: Notifier
  clock: Clock
  log: Log
  faultPoint: FaultPoint
  /** The longest that a run may take, in seconds. */
  runSeconds: number
}

/** Seconds for which a runner is believed to be there without hearing from it. */
export const leaseSeconds = 60
// In which a runner must say its first word: an answer may get lost on its way to one that is gone.
const firstLeaseMs = 15_000
// For so long after its beginning a run may be given to runners that say no word, at no cost.
const unheardMostMs = 10 * 60_000
const lossesAtMost = 2
// A runner that was told to cancel has its own patience, which is shorter.
const cancelPatienceMs = 120_000
const overtimeMs = 120_000

/** Who asks for a run, and what it has. */
export type QueueRunner = { name: string; labels: string[] }

/** The state of a run that was given to a runner, and to nobody since. */
export function running({
  id,
  attempt,
  tokenHash,
}: Pick<ListedRun, 'id' | 'attempt' | 'tokenHash'>) {
  return { id, attempt, status: 'running', ...(tokenHash !== null && { tokenHash }) } as const
}

/** Who asks about a run that it has: the token is another one each time the run is given away. */
export type Claimant = { id: string; tokenHash: string }

/** A run that was given to a runner, with the token for it. */
export type Claimed = { run: ListedRun; token: string; by: Claimant }

/** The queue of runs: gives them to runners under a lease, and takes them back from those that are lost. */
export function createQueue(dependencies: Dependencies) {
  const { db, changes, clock, log, faultPoint, runSeconds } = dependencies
  const leaseUntil = () => clock.now() + leaseSeconds * 1000

  /** Gives the next run to a runner; undefined when there is none for it. */
  async function claim(runner: QueueRunner): Promise<Claimed | undefined> {
    for (const candidate of await candidates(runner)) {
      const claimed = await take(candidate, runner)
      if (claimed) return claimed
    }
    return undefined
  }

  // The oldest of those repositories first that have the fewest runs under way.
  async function candidates({ labels }: QueueRunner): Promise<Unfinished[]> {
    const unfinished = await listUnfinished(db)
    const has = new Set(labels)
    const busy = new Map<string, number>()
    for (const { repositoryId, status } of unfinished) {
      if (status === 'running') busy.set(repositoryId, (busy.get(repositoryId) ?? 0) + 1)
    }
    const waiting = unfinished.filter(({ status }) => status === 'queued')
    const fitting = waiting.filter((run) => labelsOf(run).every((label) => has.has(label)))
    const load = (run: Unfinished) => busy.get(run.repositoryId) ?? 0
    return fitting.sort((a, b) => load(a) - load(b) || (a.id < b.id ? -1 : 1))
  }

  async function take(
    { id, repositoryId }: Unfinished,
    runner: QueueRunner,
  ): Promise<Claimed | undefined> {
    const token = newRunToken()
    const run = await db.transaction().execute(async (tx) => {
      const now = clock.now()
      const groups = await listGroups(tx, id)
      // Of two that are taken at the same time, the second one must see the first.
      if (groups.length > 0) await lockRuns(tx, repositoryId)
      const taken = await updateRun(
        tx,
        { id, status: 'queued' },
        {
          status: 'running',
          runner: runner.name,
          leaseUntil: now + firstLeaseMs,
          tokenHash: hashToken(token),
          startedAt: now,
        },
      )
      if (!taken) return undefined
      const others = await listInGroups(tx, { repositoryId, groups, status: 'running' })
      if (others.some((other) => other !== id)) {
        const again = { status: 'queued', tokenHash: null, startedAt: null, runner: '' } as const
        await updateRun(tx, { id, status: 'running' }, again)
        return undefined
      }
      await publishRun(tx, now, 'running', taken)
      return taken
    })
    if (!run) return undefined
    faultPoint('run.claimed')
    changes.notify(id)
    return { run, token, by: { id, tokenHash: hashToken(token) } }
  }

  /** Believes for a further while that a runner is there; the run as it is. Throws `run_not_found` when it is not the runner's any more. */
  async function renew({ id, tokenHash }: Claimant): Promise<ListedRun> {
    const held = { id, tokenHash, status: 'running' } as const
    const run = await updateRun(db, held, { leaseUntil: leaseUntil() })
    if (!run) throw gone(id)
    return run
  }

  /** Takes a run back from its runner, to be given to another; after a second loss it has failed. */
  async function takeBack(
    run: Pick<ListedRun, 'id' | 'attempt' | 'tokenHash' | 'losses' | 'cancelReason' | 'runner'>,
    { isLoss, reason }: { isLoss: boolean; reason: string },
  ): Promise<void> {
    const losses = run.losses + (isLoss ? 1 : 0)
    if (run.cancelReason !== null) return complete(run, 'cancelled', run.cancelReason)
    if (losses >= lossesAtMost)
      return complete(run, 'failure', `${reason} This was the second time.`)
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
      await detachLog(tx, attempt)
      await addLog(tx, queued, [
        { step: null, prefix: '', text: `${reason} The run is queued again.\n` },
      ])
      await publishRun(tx, now, 'queued', queued)
      // Somebody may have cancelled it since it was looked at.
      if (queued.cancelReason !== null) await completeQueued(tx, run.id, queued.cancelReason, now)
    })
    faultPoint('run.taken-back')
    changes.notify(run.id)
    changes.notify('queue')
  }

  /** Ends a run that its runner has not ended. */
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
      await publishRun(tx, now, 'completed', ended)
    })
    changes.notify(run.id)
    changes.notify('queue')
  }

  return {
    /** Waits for a run for a runner. */
    claim: (runner: QueueRunner, waitMs: number, signal: AbortSignal) =>
      changes.until('queue', { deadline: performance.now() + waitMs, signal }, () => claim(runner)),

    renew,
    complete,

    /** Hands a run back that its runner cannot go on with. */
    async release(by: Claimant, why: { isLoss: boolean; reason: string }): Promise<void> {
      await takeBack(await renew(by), why)
    },

    /** Takes back what runners have that are gone: of one name at once, of all others when their lease is over. */
    async sweep(lostRunner?: string): Promise<void> {
      const now = clock.now()
      const overdue = await listOverdue(db, {
        now,
        cancelledBefore: now - cancelPatienceMs,
        startedBefore: now - runSeconds * 1000 - overtimeMs,
      })
      const lost = lostRunner === undefined ? [] : await listRunningOf(db, lostRunner)
      for (const run of new Map([...overdue, ...lost].map((one) => [one.id, one])).values()) {
        const isLost = run.leaseUntil < now || run.runner === lostRunner
        const wasHeard = run.leaseUntil !== (run.startedAt ?? 0) + firstLeaseMs
        // What one died of that is known to have died may have been this run; nor is it tried for ever.
        const isOld = now - run.createdAt > unheardMostMs
        const isLoss = wasHeard || run.runner === lostRunner || isOld
        log.warn({ runId: run.id, runner: run.runner, isLost }, 'a run was taken from its runner')
        if (isLost) await takeBack(run, { isLoss, reason: `The runner ${run.runner} was lost.` })
        else if (run.cancelReason !== null) await complete(run, 'cancelled', run.cancelReason)
        else await complete(run, 'timed_out', 'The run took longer than a run may.')
      }
    },

    /** A run that its runner still has. */
    async held({ id, tokenHash }: Claimant): Promise<ListedRun> {
      const run = await findRunById(db, id)
      if (run?.status !== 'running' || run.tokenHash !== tokenHash) throw gone(id)
      return run
    },
  }
}

function labelsOf({ labels }: Pick<RunRow, 'labels'>): string[] {
  return JSON.parse(labels)
}

function gone(id: string): Problem {
  return new Problem('run_not_found', `The run ${id} is not this runner's any more.`)
}

const runTokenPrefix = 'svcrun_'
const runTokenBytes = 24

/** A token for one attempt of one run. */
function newRunToken(): string {
  return runTokenPrefix + randomBytes(runTokenBytes).toString('base64url')
}

/** Whether a string may be such a token. */
export function isRunToken(text: string): boolean {
  return text.startsWith(runTokenPrefix)
}
