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
  const buckets = new Map<string, { level: number; at: number }>()

  function current(key: string): number {
    const bucket = buckets.get(key)
    if (!bucket) return burst
    // A clock that is set back must not empty a bucket.
    const elapsedMs = Math.max(0, clock.now() - bucket.at)
    return Math.min(burst, bucket.level + (elapsedMs / 1000) * perSecond)
  }

  return {
    /** Takes a token from a key's bucket. Returns 0, or the seconds until one is available. */
    take(key: string): number {
      const level = current(key)
      if (level < 1) return Math.max(1, Math.ceil((1 - level) / perSecond))
      buckets.delete(key)
      buckets.set(key, { level: level - 1, at: clock.now() })
      if (buckets.size > maxKeys) buckets.delete(buckets.keys().next().value ?? key)
      return 0
    },
  }
}
