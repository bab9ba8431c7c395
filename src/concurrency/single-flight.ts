type Options<T> = {
  /** Approximate length of a result, in characters. */
  lengthOf: (result: T) => number
  /** Total length of the cached keys and results. */
  maxLength: number
  /** How long a result is cached. */
  ttlMs: number
}

/** Shares the work of concurrent calls with the same key, and caches its result briefly. Failures are not cached. */
export function createSingleFlight<T>({ lengthOf, maxLength, ttlMs }: Options<T>) {
  const inFlight = new Map<string, Promise<T>>()
  // The oldest first.
  const cache = new Map<string, { result: T; length: number; expiresAt: number }>()
  let total = 0

  function evict(key: string): void {
    total -= cache.get(key)?.length ?? 0
    cache.delete(key)
  }

  function store(key: string, result: T): void {
    const length = key.length + lengthOf(result)
    cache.set(key, { result, length, expiresAt: performance.now() + ttlMs })
    total += length
    for (const oldest of cache.keys()) {
      if (total <= maxLength) return
      evict(oldest)
    }
  }

  return async function share(key: string, work: () => Promise<T>): Promise<T> {
    const now = performance.now()
    for (const [old, { expiresAt }] of cache) {
      if (expiresAt > now) break
      evict(old)
    }
    const cached = cache.get(key)
    if (cached) return cached.result
    let result = inFlight.get(key)
    if (!result) {
      result = work()
      inFlight.set(key, result)
      result.then(
        (value) => {
          inFlight.delete(key)
          store(key, value)
        },
        () => inFlight.delete(key),
      )
    }
    return result
  }
}
