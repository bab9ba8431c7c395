import type { DeliveryRow } from '#database/schema.ts'
import type { Lease, Target } from '../queue-store.ts'
import { nextAttemptAt, type Schedule } from '../retry-schedule.ts'
import type { AttemptOutcome } from '../sending/sender.ts'

/** A delivery that this server has leased. */
export type DeliveryJob = {
  delivery: DeliveryRow
  target: Target
  /** Undefined for a ping of a webhook of a namespace. */
  repositoryName: string | undefined
  isManual: boolean
  /** Undefined until it has been composed. */
  body: string | undefined
  lease: Lease
}

/** The result of a job: the outcome of its attempt, why none can be made, or that it was released. */
export type Settled = { job: DeliveryJob } & (
  | { outcome: AttemptOutcome }
  | { end: string }
  | { isReleased: true }
)

type ChangeOptions = {
  now: number
  /** Whether the webhook is enabled. */
  isEnabled: boolean
  schedule: Schedule
  /** From 0 to 1, for jitter. */
  random: number
}

/** The change of a delivery's row by its result. */
export function toDeliveryChange(
  settled: Settled,
  { now, isEnabled, schedule, random }: ChangeOptions,
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
