import { lookup } from 'node:dns/promises'
import { createFairLimiter } from '#base/concurrency/fair-limiter.ts'
import { createResultCache } from '#base/concurrency/result-cache.ts'
import { addressesAllowed, type ListedHosts } from '#base/outbound/listed-hosts.ts'
import { createOutbound, type ForbiddenHost, type Outbound } from '#base/outbound/outbound.ts'

// Node looks up two names at a time, so that a job that asks for slow ones leaves a thread to other jobs.
const limits = { overall: 2, perKey: 1, waiting: 256, waitMs: 10_000 }
// Lookups of a job that are cached, or wait for those of other jobs.
const maxOfJob = 32
const limitsOfJob = { overall: maxOfJob, perKey: maxOfJob, waiting: 0, waitMs: 0 }
const cacheMaxLength = 100_000
const cacheMaxAgeMs = 30_000

/** Creates the outbound policies of jobs, which share name lookups fairly. Each allows the addresses of the same list. */
export function createStepOutbounds(listed: ListedHosts): () => Outbound {
  const limiter = createFairLimiter(limits)
  const cached = createResultCache<{ address: string }[]>({
    lengthOf: (addresses) => addresses.length * 40,
    maxLength: cacheMaxLength,
    maxAgeMs: cacheMaxAgeMs,
  })
  const allow = addressesAllowed(listed)
  const { signal } = new AbortController()
  let jobs = 0

  return () => {
    const job = String(++jobs)
    const lookUp = async (name: string) => {
      using _permit = await limiter.acquire([job], signal).catch((cause) => {
        throw new Error('Too many name lookups are waiting.', { cause })
      })
      return await lookup(name, { all: true, order: 'verbatim' })
    }
    return createOutbound({
      allow,
      lookup: (name) => cached(name, () => lookUp(name)),
      lookups: createFairLimiter(limitsOfJob),
      describe,
    })
  }
}

// Without the address, which would reveal the internal network.
function describe({ phrase, entries }: ForbiddenHost): string {
  const [word = ''] = entries
  const entry = word === 'private' || word === 'loopback' ? `"${word}"` : 'the address'
  return `It has ${phrase}, which steps may not reach unless SVC_STEP_HOSTS of the runner lists ${entry}.`
}
