import { type Clock, dayMs } from '../base/clock.ts'
import { createBatcher } from '../concurrency/batcher.ts'
import type { Database } from '../database/database.ts'
import type { Db, DeliveryAttemptRow, DeliveryRow } from '../database/schema.ts'
import { disableWebhook, giveUpWaiting } from './disabling.ts'
import {
  endLeases,
  insertAttempts,
  insertBodies,
  type Lease,
  leaseDeliveries,
  listBodies,
  listClaimable,
  listFailingSince,
  listLeased,
  listTargets,
  lockLeases,
  makePending,
  markFailing,
  markHealthy,
  refreshDue,
  type Target,
  updateLeased,
} from './queue-store.ts'
import { nextAttemptAt, type Schedule } from './retry-schedule.ts'
import type { AttemptOutcome } from './sender.ts'

type Dependencies = {
  db: Database
  clock: Clock
  schedule: Schedule
  /** Who has the leases: this server, which is the only one of this name. */
  holder: string
}

/** A delivery that is this server's until its lease is over. */
export type DeliveryJob = {
  delivery: DeliveryRow
  target: Target
  isManual: boolean
  /** Undefined until it has been composed. */
  body: string | undefined
  lease: Lease
}

/** What has become of a job: what came of its attempt, or why there is none and never will be, or nothing. */
export type Settled = { job: DeliveryJob } & (
  | { outcome: AttemptOutcome }
  | { end: string }
  | { isReleased: true }
)

type Task =
  | { kind: 'claim'; wanted: Map<string, number> }
  | { kind: 'keep'; job: DeliveryJob; body: string }
  | { kind: 'record'; settled: Settled }

type Result = DeliveryJob[] | DeliveryJob | undefined

type Targets = Map<string, Target>

/** Longer than composing, sending and recording one may take. */
export const leaseMs = 60_000
const failingMostMs = 5 * dayMs
const disabledReason = 'All attempts have failed for five days.'
const writtenAtOnce = 256
const writtenApartMs = 4

/** The queue of deliveries in the database. Who claims one has a lease: a crash gives it back, and no two have one at once. */
export function createDeliveryQueue({ db, clock, schedule, holder }: Dependencies) {
  // Whatever is asked for at about the same time becomes one transaction: each one costs a write to the disk.
  const write = createBatcher(
    { maxItems: writtenAtOnce, minIntervalMs: writtenApartMs },
    async (tasks: Task[]) => {
      const { results, tooLong } = await db.transaction().execute((tx) => perform(tx, tasks))
      for (const webhook of tooLong) await disable(webhook)
      return results
    },
  )

  // The order of locks is that of disabling.ts: deliveries in the order of their ids, then webhooks. Those that are
  // claimed come later, and are not waited for.
  async function perform(tx: Db, tasks: Task[]) {
    const ids = [...new Set(tasks.flatMap(webhooksOf))]
    const targets = new Map((await listTargets(tx, ids)).map((target) => [target.id, target]))
    const now = clock.now()
    const settled = tasks.flatMap(toSettled)
    const composed = tasks.flatMap(toComposed)
    const known = [...settled, ...composed].map(({ job }) => job.delivery.id)
    const leases = await lockLeases(tx, known, holder)
    const givenUp = await record(tx, { settled, targets, now })
    const kept = await keep(tx, { composed, leases, now })
    const results: Result[] = []
    for (const task of tasks) {
      if (task.kind === 'claim') results.push(await claim(tx, { ...task, targets, now }))
      else results.push(task.kind === 'keep' ? kept.get(task.job) : undefined)
    }
    await refreshDue(tx, ids)
    await recordHealth(tx, settled)
    const since = now - failingMostMs
    return {
      results,
      tooLong: givenUp.length > 0 ? await listFailingSince(tx, givenUp, since) : [],
    }
  }

  /** Takes what is due of some webhooks. */
  async function claim(
    tx: Db,
    { wanted, targets, now }: { wanted: Map<string, number>; targets: Targets; now: number },
  ): Promise<DeliveryJob[]> {
    const jobs: DeliveryJob[] = []
    const leaseUntil = now + leaseMs
    for (const [webhookId, most] of wanted) {
      const target = targets.get(webhookId)
      if (!target) continue
      // Somebody may have disabled it while a failure was being recorded.
      if (target.isEnabled === 0) await giveUpWaiting(tx, webhookId, { now, hasLocks: true })
      for (const delivery of await listClaimable(tx, { target, now, most })) {
        const lease = { id: delivery.id, leaseHolder: holder, leaseUntil }
        const isManual = delivery.isWanted === 1
        jobs.push({ delivery, target, isManual, body: undefined, lease })
      }
    }
    if (jobs.length === 0) return jobs
    const ids = jobs.map(({ delivery }) => delivery.id)
    await leaseDeliveries(tx, ids, { leaseHolder: holder, leaseUntil })
    const bodies = await listBodies(tx, ids)
    return jobs.map((job) => ({ ...job, body: bodies.get(job.delivery.id) }))
  }

  /** Keeps bodies for good; the jobs as they are then, but those that are not ours any more. */
  async function keep(
    tx: Db,
    {
      composed,
      leases,
      now,
    }: { composed: { job: DeliveryJob; body: string }[]; leases: Map<string, number>; now: number },
  ): Promise<Map<DeliveryJob, DeliveryJob>> {
    const kept = new Map<DeliveryJob, DeliveryJob>()
    for (const { job, body } of composed) {
      const { lease } = job
      if (leases.get(lease.id) !== lease.leaseUntil) continue
      kept.set(job, { ...job, body, lease: await prolonged(tx, lease, now) })
    }
    const bodies = [...kept.values()].map(({ delivery, body = '' }) => ({
      deliveryId: delivery.id,
      body,
    }))
    if (bodies.length > 0) await insertBodies(tx, bodies)
    return kept
  }

  // Composing may have had to wait.
  async function prolonged(tx: Db, lease: Lease, now: number): Promise<Lease> {
    if (lease.leaseUntil - now > leaseMs / 2) return lease
    const leaseUntil = now + leaseMs
    await updateLeased(tx, lease, { leaseUntil })
    return { ...lease, leaseUntil }
  }

  /** Records what has become of jobs; the webhooks of which one was given up after its last attempt. */
  async function record(
    tx: Db,
    { settled, targets, now }: { settled: Settled[]; targets: Targets; now: number },
  ): Promise<string[]> {
    const attempts: DeliveryAttemptRow[] = []
    const givenUp = new Set<string>()
    for (const one of settled) {
      const { job } = one
      const isEnabled = targets.get(job.target.id)?.isEnabled === 1
      const change = toChange(one, { now, isEnabled })
      const updated = await updateLeased(tx, job.lease, change)
      // Somebody else has it by now, or it is gone.
      if (!updated) continue
      if ('isReleased' in one) continue
      if (updated.isWanted === 1) await makePending(tx, job.delivery.id, now)
      if ('outcome' in one) attempts.push(toAttempt(one))
      if (change.status === 'failed') givenUp.add(job.target.id)
    }
    if (attempts.length > 0) await insertAttempts(tx, attempts)
    return [...givenUp]
  }

  async function disable(webhook: { id: string; repositoryId: string }): Promise<void> {
    const already = new Error(`the webhook ${webhook.id} is disabled already`)
    const actor = { id: 'server', username: 'svc' }
    const about = { reason: disabledReason, actor, now: clock.now() }
    await db
      .transaction()
      .execute(async (tx) => {
        // Of two servers one is first, and nothing is told twice.
        if (!(await disableWebhook(tx, webhook, about))) throw already
      })
      .catch((error) => {
        if (error !== already) throw error
      })
  }

  function toChange(
    settled: Settled,
    { now, isEnabled }: { now: number; isEnabled: boolean },
  ): Partial<DeliveryRow> {
    const { delivery, target, isManual } = settled.job
    const free = { leaseUntil: 0, leaseHolder: '' }
    if ('isReleased' in settled) return isManual ? { ...free, isWanted: 1 } : free
    if ('end' in settled) {
      return { ...free, status: 'failed', dueAt: null, completedAt: now, fault: settled.end }
    }
    const { outcome } = settled
    const { responseStatus, duration, fault, retryAfterMs } = outcome
    const attempts = delivery.attempts + 1
    const { event } = delivery
    const mayRetry = fault !== '' && responseStatus !== 410 && isEnabled
    const random = Math.random()
    const dueAt = mayRetry
      ? nextAttemptAt({ schedule, event, attempts, now, retryAfterMs, random })
      : undefined
    return {
      ...free,
      status: fault === '' ? 'success' : dueAt === undefined ? 'failed' : 'pending',
      attempts,
      url: target.url,
      lastAttemptAt: outcome.startedAt,
      dueAt: dueAt ?? null,
      completedAt: dueAt === undefined ? now : null,
      responseStatus,
      duration,
      fault,
    }
  }

  return {
    /** Takes what is due of some webhooks, up to a number for each. */
    // The result of a task is that of its kind, here and below.
    claim: (wanted: Map<string, number>) =>
      write({ kind: 'claim', wanted }) as Promise<DeliveryJob[]>,

    /** Keeps the body of a job before it is sent; the job as it is then, or undefined when it is not ours any more. */
    keepBody: (job: DeliveryJob, body: string) =>
      write({ kind: 'keep', job, body }) as Promise<DeliveryJob | undefined>,

    /** Records what has become of a job. */
    async record(settled: Settled): Promise<void> {
      await write({ kind: 'record', settled })
    },

    /** Gives a job back that was not attempted, or whose attempt was cut off. */
    async release(job: DeliveryJob): Promise<void> {
      await write({ kind: 'record', settled: { job, isReleased: true } })
    },

    /** Gives back what this server had when it was killed. */
    async recover(): Promise<void> {
      for (const webhookId of await listLeased(db, holder)) {
        await db.transaction().execute(async (tx) => {
          await endLeases(tx, webhookId, holder)
          await refreshDue(tx, [webhookId])
        })
      }
    },
  }
}

/** Keeps since when webhooks have failed. What is the server's own fault tells nothing. */
async function recordHealth(tx: Db, settled: Settled[]): Promise<void> {
  const healthy = new Set<string>()
  const failing = new Map<string, number>()
  for (const one of settled) {
    if (!('outcome' in one) || one.outcome.isOwnFault) continue
    const { id } = one.job.target
    if (one.outcome.fault === '') {
      healthy.add(id)
      failing.delete(id)
    } else if (!failing.has(id)) failing.set(id, one.outcome.startedAt)
  }
  if (healthy.size > 0) await markHealthy(tx, [...healthy])
  for (const [id, since] of failing) await markFailing(tx, id, since)
}

function toAttempt({
  job,
  outcome,
}: {
  job: DeliveryJob
  outcome: AttemptOutcome
}): DeliveryAttemptRow {
  return {
    deliveryId: job.delivery.id,
    attempt: job.delivery.attempts + 1,
    isManual: job.isManual ? 1 : 0,
    startedAt: outcome.startedAt,
    duration: outcome.duration,
    url: job.target.url,
    requestHeaders: JSON.stringify(outcome.requestHeaders),
    responseStatus: outcome.responseStatus,
    responseHeaders: JSON.stringify(outcome.responseHeaders),
    responseBody: outcome.responseBody,
    fault: outcome.fault,
  }
}

function webhooksOf(task: Task): string[] {
  if (task.kind === 'claim') return [...task.wanted.keys()]
  return [(task.kind === 'keep' ? task.job : task.settled.job).target.id]
}

function toSettled(task: Task): Settled[] {
  return task.kind === 'record' ? [task.settled] : []
}

function toComposed(task: Task): { job: DeliveryJob; body: string }[] {
  return task.kind === 'keep' ? [task] : []
}
