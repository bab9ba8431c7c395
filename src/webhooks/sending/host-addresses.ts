import { LRUCache } from 'lru-cache'
import { createSemaphore } from '#base/concurrency/semaphore.ts'
import { createSingleFlight } from '#base/concurrency/single-flight.ts'
import type { Outbound } from '#base/outbound/outbound.ts'

type Dependencies = {
  outbound: Pick<Outbound, 'resolve'>
  /** A monotonic clock, in milliseconds. */
  now?: () => number
}

type Addresses = Awaited<ReturnType<Outbound['resolve']>>

const cacheMs = 5000
const fastLookupMs = 1000
const maxCached = 1000
// Half of the concurrent lookups that the policy allows; the other half is reserved for hosts that resolve quickly.
const maxUnknownLookups = 16

/**
 * Resolves hosts by the outbound policy, and caches the result for a few seconds. Names that resolve slowly, or not at
 * all, wait only for each other. Throws the Problems of the policy.
 */
export function createHostAddresses({ outbound, now = () => performance.now() }: Dependencies) {
  const cached = new LRUCache<string, { at: number; addresses: Addresses }>({ max: maxCached })
  const share = createSingleFlight<Addresses>()
  const unknownLookups = createSemaphore(maxUnknownLookups)
  const { signal } = new AbortController()

  async function resolve(host: string): Promise<Addresses> {
    using _permit = cached.has(host) ? undefined : await unknownLookups.acquire(signal)
    const startedAt = now()
    const found = await outbound.resolve(host).finally(() => cached.delete(host))
    if (now() - startedAt <= fastLookupMs) cached.set(host, { at: now(), addresses: found })
    return found
  }

  return async (host: string): Promise<Addresses> => {
    const entry = cached.get(host)
    if (entry && now() - entry.at < cacheMs) return entry.addresses
    return share(host, () => resolve(host))
  }
}
