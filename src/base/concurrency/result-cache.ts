import { LRUCache } from 'lru-cache'
import { createSingleFlight } from './single-flight.ts'

type Options<T> = {
  /** Approximate length of a result, in characters. */
  lengthOf: (result: T) => number
  /** Total length of the cached keys and results. */
  maxLength: number
  /** How long results are cached; unlimited by default. */
  maxAgeMs?: number
}

/** Shares the work of calls with the same key: of concurrent ones, and of later ones while its result is cached. */
export function createResultCache<T>({ lengthOf, maxLength, maxAgeMs }: Options<T>) {
  const share = createSingleFlight<T>()
  // Wrapped, because a result may be undefined.
  const results = new LRUCache<string, { result: T }>({
    maxSize: maxLength,
    sizeCalculation: ({ result }, key) => key.length + lengthOf(result),
    ...(maxAgeMs !== undefined && { ttl: maxAgeMs }),
  })

  return async (key: string, work: () => Promise<T>): Promise<T> => {
    const cached = results.get(key)
    if (cached) return cached.result
    return share(key, async () => {
      const result = await work()
      results.set(key, { result })
      return result
    })
  }
}
