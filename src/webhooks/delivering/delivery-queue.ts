import { type Clock, dayMs } from '#base/clock.ts'
import { createBatcher } from '#base/concurrency/batcher.ts'
import type { Log } from '#base/log.ts'
import type { Database } from '#database/database.ts'
import type { Db, DeliveryAttemptRow, DeliveryRow } from '#database/schema.ts'
import type { Publish } from '#events/events.ts'
import { createDisableWebhook, failPendingDeliveries } from '../disabling.ts'
import {
  endLeases,
  failClaimable,
  insertAttempts,
  insertBodies,
  isDeleted,
  type Lease,
  leaseDeliveries,
  listBodies,
  listClaimable,
  listFailingSince,
  listLeased,
  listNamesIn,
  listTargets,
  lockLeases,
  makePending,
  markFailing,
  markHealthy,
  refreshDue,
  type Target,
  updateLeased,
} from '../queue-store.ts'
import type { Schedule } from '../retry-schedule.ts'
import type { AttemptOutcome } from '../sending/sender.ts'
import { type DeliveryJob, type Settled, toDeliveryChange } from './delivery-change.ts'

type Dependencies = {
  db: Database
  publish: Publish
  clock: Clock
  log: Log
  schedule: Schedule
  /** The unique name of this server, which owns its leases. */
  leaseOwner: string
}

type Task =
  | { kind: 'claim'; wanted: Map<string, number> }
  | { kind: 'storeBodies'; job: DeliveryJob; body: string }
  | { kind: 'record'; settled: Settled }

type Result = DeliveryJob[] | DeliveryJob | undefined

type Targets = Map<string, Target>

/** Longer than composing, sending and recording a delivery may take. */
export const leaseMs = 60_000
const maxFailingMs = 5 * dayMs
const disabledReason = 'All attempts have failed for five days.'
const maxTasksPerTransaction = 256
const batchIntervalMs = 4

export type DeliveryQueue = ReturnType<typeof createDeliveryQueue>

/** The queue of deliveries in the database. A claim is a lease, so a delivery has one worker and a crash releases it. */
export function createDeliveryQueue(dependencies: Dependencies) {
  const { db, publish, clock, log, schedule, leaseOwner } = dependencies
  const disableWebhook = createDisableWebhook(publish)
  // Concurrent tasks share one transaction, because each commit costs a write to the disk.
  const write = createBatcher(
    { maxItems: maxTasksPerTransaction, minIntervalMs: batchIntervalMs },
    async (tasks: Task[]) => {
      const { results, failingTooLong } = await db.transaction().execute((tx) => perform(tx, tasks))
      for (const webhook of failingTooLong) {
        // The tasks are committed: a failure here must not repeat them.
        await disable(webhook).catch((error) =>
          log.error({ err: error, webhook: webhook.id }, 'failing webhook not disabled'),
        )
      }
      return results
    },
  )

  // The lock order of disabling.ts: deliveries in the order of their ids, then webhooks. Deliveries to claim are locked
  // later, but without waiting.
  async function perform(tx: Db, tasks: Task[]) {
    const ids = [...new Set(tasks.flatMap(webhooksOf))]
    const targets = new Map((await listTargets(tx, ids)).map((target) => [target.id, target]))
    const now = clock.now()
    const settled = tasks.flatMap(toSettled)
    const composed = tasks.flatMap(toComposed)
    const settledIds = [...settled, ...composed].map(({ job }) => job.delivery.id)
    const leases = await lockLeases(tx, settledIds, leaseOwner)
    const finallyFailed = await record(tx, { settled, targets, now })
    const stored = await storeBodies(tx, { composed, leases, now })
    const results: Result[] = []
    for (const task of tasks) {
      if (task.kind === 'claim') results.push(await claim(tx, { ...task, targets, now }))
      else results.push(task.kind === 'storeBodies' ? stored.get(task.job) : undefined)
    }
    await refreshDue(tx, ids)
    await recordHealth(tx, settled)
    const since = now - maxFailingMs
    return {
      results,
      failingTooLong:
        finallyFailed.length > 0 ? await listFailingSince(tx, finallyFailed, since) : [],
    }
  }

  async function claim(
    tx: Db,
    { wanted, targets, now }: { wanted: Map<string, number>; targets: Targets; now: number },
  ): Promise<DeliveryJob[]> {
    const jobs: DeliveryJob[] = []
    const leaseUntil = now + leaseMs
    for (const [webhookId, limit] of wanted) {
      const target = targets.get(webhookId)
      if (!target || target.repositoryDeletedAt !== null) continue
      // It may have been disabled while a failure was being recorded.
      if (target.isEnabled === 0)
        await failPendingDeliveries(tx, webhookId, { now, hasLocks: true })
      for (const { delivery, repositoryName } of await namedClaims(tx, { target, now, limit })) {
        const lease = { id: delivery.id, leaseHolder: leaseOwner, leaseUntil }
        const isManual = delivery.isWanted === 1
        jobs.push({ delivery, target, repositoryName, isManual, body: undefined, lease })
      }
    }
    if (jobs.length === 0) return jobs
    const ids = jobs.map(({ delivery }) => delivery.id)
    await leaseDeliveries(tx, ids, { leaseHolder: leaseOwner, leaseUntil })
    const bodies = await listBodies(tx, ids)
    return jobs.map((job) => ({ ...job, body: bodies.get(job.delivery.id) }))
  }

  /** Records results, and returns the webhooks of which a delivery has failed for good. */
  async function record(
    tx: Db,
    { settled, targets, now }: { settled: Settled[]; targets: Targets; now: number },
  ): Promise<string[]> {
    const attempts: DeliveryAttemptRow[] = []
    const finallyFailed = new Set<string>()
    for (const found of settled) {
      const { job } = found
      const target = targets.get(job.target.id)
      const isEnabled = target?.isEnabled === 1
      // Its body cannot be composed until the repository is restored.
      const isBlocked = isOwnFault(found) && (await isDeleted(tx, job.delivery.repositoryId))
      const one: Settled = isBlocked ? { job, isReleased: true } : found
      const change = toDeliveryChange(one, { now, isEnabled, schedule, random: Math.random() })
      const updated = await updateLeased(tx, job.lease, change)
      // The lease was lost, or the delivery was deleted.
      if (!updated) continue
      if ('isReleased' in one) continue
      if (updated.isWanted === 1) await makePending(tx, job.delivery.id, now)
      if ('outcome' in one) attempts.push(toAttempt(one))
      if (change.status === 'failed') finallyFailed.add(job.target.id)
    }
    if (attempts.length > 0) await insertAttempts(tx, attempts)
    return [...finallyFailed]
  }

  async function disable(webhook: { id: string; scopeId: string }): Promise<void> {
    const already = new Error(`the webhook ${webhook.id} is disabled already`)
    const actor = { id: 'server', username: 'svc' }
    const about = { reason: disabledReason, actor, now: clock.now() }
    await db
      .transaction()
      .execute(async (tx) => {
        // Another server may have disabled it first; rolling back avoids a second event.
        if (!(await disableWebhook(tx, webhook, about))) throw already
      })
      .catch((error) => {
        if (error !== already) throw error
      })
  }

  return {
    /** Claims due deliveries of webhooks, up to a number for each. */
    // The kind of a task determines the type of its result, here and below.
    claim: (wanted: Map<string, number>) =>
      write({ kind: 'claim', wanted }) as Promise<DeliveryJob[]>,

    /** Stores the body of a job before it is sent, and returns the updated job; undefined when the lease was lost. */
    storeBody: (job: DeliveryJob, body: string) =>
      write({ kind: 'storeBodies', job, body }) as Promise<DeliveryJob | undefined>,

    async record(settled: Settled): Promise<void> {
      await write({ kind: 'record', settled })
    },

    /** Releases a job that was not attempted, or whose attempt was aborted. */
    async release(job: DeliveryJob): Promise<void> {
      await write({ kind: 'record', settled: { job, isReleased: true } })
    },

    /** Releases the leases that this server had when it was killed. */
    async recover(): Promise<void> {
      for (const webhookId of await listLeased(db, leaseOwner)) {
        await db.transaction().execute(async (tx) => {
          await endLeases(tx, webhookId, leaseOwner)
          await refreshDue(tx, [webhookId])
        })
      }
    },
  }
}

/**
 * Claimable deliveries with the names of their repositories, undefined for a ping. Those of a repository that has left the
 * namespace of the webhook fail instead: its members may no longer see it.
 */
async function namedClaims(tx: Db, wanted: { target: Target; now: number; limit: number }) {
  const { target, now } = wanted
  const deliveries = await listClaimable(tx, wanted)
  const { namespaceId, repositoryName } = target
  if (namespaceId === null)
    return deliveries.map((delivery) => ({ delivery, repositoryName: repositoryName ?? undefined }))
  const ids = new Set(deliveries.map(({ repositoryId }) => repositoryId))
  const names = await listNamesIn(tx, namespaceId, [...ids])
  const isOutside = ({ seq, repositoryId }: DeliveryRow) => seq !== null && !names.has(repositoryId)
  const outside = deliveries.filter(isOutside).map(({ id }) => id)
  await failClaimable(tx, outside, {
    now,
    fault: 'The repository is not in the namespace any more.',
  })
  return deliveries
    .filter((delivery) => !isOutside(delivery))
    .map((delivery) => ({ delivery, repositoryName: names.get(delivery.repositoryId) }))
}

/** Records since when webhooks have failed. Faults of this server do not count. */
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

/** Whether a delivery failed before it was sent. */
function isOwnFault(settled: Settled): boolean {
  return 'end' in settled || ('outcome' in settled && settled.outcome.isOwnFault)
}

function webhooksOf(task: Task): string[] {
  if (task.kind === 'claim') return [...task.wanted.keys()]
  return [(task.kind === 'storeBodies' ? task.job : task.settled.job).target.id]
}

function toSettled(task: Task): Settled[] {
  return task.kind === 'record' ? [task.settled] : []
}

function toComposed(task: Task): { job: DeliveryJob; body: string }[] {
  return task.kind === 'storeBodies' ? [task] : []
}

/** Stores bodies, and returns the updated jobs, without those whose lease was lost. */
async function storeBodies(
  tx: Db,
  {
    composed,
    leases,
    now,
  }: { composed: { job: DeliveryJob; body: string }[]; leases: Map<string, number>; now: number },
): Promise<Map<DeliveryJob, DeliveryJob>> {
  const stored = new Map<DeliveryJob, DeliveryJob>()
  for (const { job, body } of composed) {
    const { lease } = job
    if (leases.get(lease.id) !== lease.leaseUntil) continue
    stored.set(job, { ...job, body, lease: await extendLease(tx, lease, now) })
  }
  const bodies = [...stored.values()].map(({ delivery, body = '' }) => ({
    deliveryId: delivery.id,
    body,
  }))
  if (bodies.length > 0) await insertBodies(tx, bodies)
  return stored
}

// Composing may have used up much of the lease.
async function extendLease(tx: Db, lease: Lease, now: number): Promise<Lease> {
  if (lease.leaseUntil - now > leaseMs / 2) return lease
  const leaseUntil = now + leaseMs
  await updateLeased(tx, lease, { leaseUntil })
  return { ...lease, leaseUntil }
}
