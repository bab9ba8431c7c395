import { LRUCache } from 'lru-cache'
import type { Clock } from '../base/clock.ts'

type Options = {
  /** Tokens added to each bucket per second. */
  perSecond: number
  /** Capacity of a bucket. */
  burst: number
  clock: Clock
}

const maxKeys = 20_000

/** Creates a token bucket per key. Beyond 20,000 keys, the least recently used buckets are dropped. */
export function createRateLimiter({ perSecond, burst, clock }: Options) {
  // By size, because `max` would allocate all at once.
  const buckets = new LRUCache<string, { level: number; at: number }>({
    maxSize: maxKeys,
    sizeCalculation: () => 1,
  })

  return {
    /** Acquires a token from a key's bucket. Returns 0, or the seconds until one is available. */
    acquire(key: string): number {
      const now = clock.now()
      const bucket = buckets.get(key) ?? { level: burst, at: now }
      // A clock that is set back must not empty a bucket.
      const elapsedMs = Math.max(0, now - bucket.at)
      const level = Math.min(burst, bucket.level + (elapsedMs / 1000) * perSecond)
      if (level < 1) return Math.max(1, Math.ceil((1 - level) / perSecond))
      buckets.set(key, { level: level - 1, at: now })
      return 0
    },
  }
}
