import type { DeliveryRow } from '#database/schema.ts'
import type { Lease, Target } from '../queue-store.ts'
import type { AttemptOutcome } from '../sending/sender.ts'

/** A delivery that this server has leased. */
export type DeliveryJob = {
  delivery: DeliveryRow
  target: Target
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
