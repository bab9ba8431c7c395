import { LRUCache } from 'lru-cache'
import { createSingleFlight } from '#base/concurrency/single-flight.ts'
import type { Outbound } from '#base/outbound/outbound.ts'

type Dependencies = {
  outbound: Pick<Outbound, 'of'>
  /** A monotonic clock, in milliseconds. */
  now?: () => number
}

type Addresses = Awaited<ReturnType<Outbound['resolve']>>

const cacheMs = 5000
const fastLookupMs = 1000
const maxCached = 1000

/**
 * Resolves hosts by the outbound policy, and caches the result for a few seconds. Lookups with the same key are shared: one
 * with another key may have to wait longer. Throws the Problems of the policy.
 */
export function createHostAddresses({ outbound, now = () => performance.now() }: Dependencies) {
  const cached = new LRUCache<string, { at: number; addresses: Addresses }>({ max: maxCached })
  const share = createSingleFlight<Addresses>()

  async function resolve(host: string, key: string): Promise<Addresses> {
    const startedAt = now()
    const found = await outbound
      .of(key)
      .resolve(host)
      .finally(() => cached.delete(host))
    if (now() - startedAt <= fastLookupMs) cached.set(host, { at: now(), addresses: found })
    return found
  }

  return async (host: string, key: string): Promise<Addresses> => {
    const entry = cached.get(host)
    if (entry && now() - entry.at < cacheMs) return entry.addresses
    return share(`${host} ${key}`, () => resolve(host, key))
  }
}
