type Options<T> = {
  /** Roughly how much text a result has. */
  lengthOf: (result: T) => number
  /** What is kept together has no more. */
  maxLength: number
  /** For how long a result is kept, in milliseconds. */
  keptMs: number
}

/** Does work once for all who ask for the same at about the same time. What failed is tried again by who asks next. */
export function createSingleFlight<T>({ lengthOf, maxLength, keptMs }: Options<T>) {
  const underWay = new Map<string, Promise<T>>()
  // The oldest first.
  const kept = new Map<string, { result: T; length: number; until: number }>()
  let total = 0

  function forget(key: string): void {
    total -= kept.get(key)?.length ?? 0
    kept.delete(key)
  }

  function keep(key: string, result: T): void {
    const length = key.length + lengthOf(result)
    kept.set(key, { result, length, until: performance.now() + keptMs })
    total += length
    for (const oldest of kept.keys()) {
      if (total <= maxLength) return
      forget(oldest)
    }
  }

  return async function share(key: string, work: () => Promise<T>): Promise<T> {
    const now = performance.now()
    for (const [old, { until }] of kept) {
      if (until > now) break
      forget(old)
    }
    const known = kept.get(key)
    if (known) return known.result
    let result = underWay.get(key)
    if (!result) {
      result = work()
      underWay.set(key, result)
      result.then(
        (made) => {
          underWay.delete(key)
          keep(key, made)
        },
        () => underWay.delete(key),
      )
    }
    return result
  }
}
