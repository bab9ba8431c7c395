import type { Clock } from '#base/clock.ts'
import { createRateLimiter } from '#base/concurrency/rate-limiter.ts'
import { networkOf } from '#base/network.ts'
import { Problem } from '#base/problem.ts'
import type { PageExchange } from '#http/page-requests.ts'
import type { Weight } from './page.ts'
import type { Visit } from './visits.ts'

const weights: Record<Weight, number> = { light: 1, git: 5, heavy: 20 }
const weightPerSecond = 20
const weightBurst = 200

/** Counts a page of a weight. Throws `too_many_requests`. */
export type LimitPageRate = (
  visit: Pick<Visit, 'open'>,
  exchange: Pick<PageExchange, 'address'>,
  weight: Weight,
) => void

/** Limits the rates of pages: of each token or key, and without a session of each network. */
export function createPageRates({ clock }: { clock: Clock }): LimitPageRate {
  const rates = createRateLimiter({ perSecond: weightPerSecond, burst: weightBurst, clock })
  return ({ open }, { address }, weight) => {
    const key = open?.principal.id ?? `anonymous ${networkOf(address)}`
    const retryAfterSeconds = rates.acquire(key, weights[weight])
    if (retryAfterSeconds <= 0) return
    const from = open ? 'in this session' : 'from this address'
    throw new Problem('too_many_requests', `Too many requests for pages ${from}.`, {
      retryAfterSeconds,
    })
  }
}
