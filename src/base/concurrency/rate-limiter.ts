import { LRUCache } from 'lru-cache'
import type { Clock } from '../clock.ts'

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
    /** Acquires tokens from a key's bucket. Returns 0, or the seconds until they are available. */
    acquire(key: string, tokens = 1): number {
      const now = clock.now()
      const bucket = buckets.get(key) ?? { level: burst, at: now }
      // A clock that is set back must not empty a bucket.
      const elapsedMs = Math.max(0, now - bucket.at)
      const level = Math.min(burst, bucket.level + (elapsedMs / 1000) * perSecond)
      if (level < tokens) return Math.max(1, Math.ceil((tokens - level) / perSecond))
      buckets.set(key, { level: level - tokens, at: now })
      return 0
    },
  }
}
