import type { Clock } from '../base/clock.ts'

type Options = {
  /** How many tokens flow into a bucket each second. */
  perSecond: number
  /** How many a bucket holds. */
  burst: number
  clock: Clock
}

const keysAtMost = 20_000

/** Token buckets by key. Full buckets are forgotten; under a flood of keys, the least recently used go first. */
export function createRateLimiter({ perSecond, burst, clock }: Options) {
  const buckets = new Map<string, { level: number; at: number }>()

  function current(key: string): number {
    const bucket = buckets.get(key)
    if (!bucket) return burst
    // A clock that was set back must not empty a bucket.
    const elapsedMs = Math.max(0, clock.now() - bucket.at)
    return Math.min(burst, bucket.level + (elapsedMs / 1000) * perSecond)
  }

  return {
    /** Takes one from a key's bucket. Returns 0, or the seconds until there is one to take. */
    take(key: string): number {
      const level = current(key)
      if (level < 1) return Math.max(1, Math.ceil((1 - level) / perSecond))
      buckets.delete(key)
      buckets.set(key, { level: level - 1, at: clock.now() })
      if (buckets.size > keysAtMost) buckets.delete(buckets.keys().next().value ?? key)
      return 0
    },
  }
}
