import type { Clock } from '#base/clock.ts'
import { createRateLimiter } from '#base/concurrency/rate-limiter.ts'
import type { Database } from '#database/database.ts'
import { type AuditAction, recordActions } from './record.ts'

type Refusal = Extract<AuditAction, { action: 'login.refused' | 'token.exchange_refused' }>

/**
 * Records a refusal of a person or workload for whom an issuer has signed; `cause` identifies them. An entry is left out
 * beyond 3 an hour for a cause and 100 an hour in all, on each node, so that no one can flood the log.
 */
export type RecordRefusal = (cause: string, refusal: Refusal) => Promise<void>

const maxPerCause = 3
const maxInAll = 100

export function createRecordRefusal({ db, clock }: { db: Database; clock: Clock }): RecordRefusal {
  const [ofCause, inAll] = [maxPerCause, maxInAll].map((perHour) =>
    createRateLimiter({ perSecond: perHour / 3600, burst: perHour, clock }),
  )
  return async (cause, refusal) => {
    if (ofCause?.acquire(cause) || inAll?.acquire('all')) return
    await db.transaction().execute((tx) => recordActions(tx, clock.now(), [refusal]))
  }
}
