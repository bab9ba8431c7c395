import type { Clock } from '#base/clock.ts'
import { createRateLimiter } from '#base/concurrency/rate-limiter.ts'
import { networkOf } from '#base/network.ts'
import { Problem } from '#base/problem.ts'
import type { PlainSettings } from '#config/settings.ts'
import type { PageExchange } from '#http/serve/page-requests.ts'
import type { Weight } from '../page.ts'
import type { Visit } from './visits.ts'

const weights: Record<Weight, number> = { light: 1, git: 5, heavy: 20 }
// People read pages more slowly than programs send requests, in bursts as large.
const shareOfRequests = 1 / 5

/** Counts a page of a weight. Throws `too_many_requests`. */
export type LimitPageRate = (
  visit: Pick<Visit, 'open'>,
  exchange: Pick<PageExchange, 'address'>,
  weight: Weight,
) => void

type Dependencies = {
  settings: Pick<PlainSettings, 'requestsPerSecond' | 'requestBurst'>
  clock: Clock
}

/** Limits the rates of pages: of each token or key, and without a session of each network. */
export function createPageRates({ settings, clock }: Dependencies): LimitPageRate {
  const perSecond = settings.requestsPerSecond * shareOfRequests
  const burst = Math.max(settings.requestBurst, weights.heavy)
  const rates = createRateLimiter({ perSecond, burst, clock })
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
