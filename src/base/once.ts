/** Calls a function at most once, and returns its result from then on. */
export function once<T>(make: () => T): () => T {
  let made: { result: T } | undefined
  return () => {
    made ??= { result: make() }
    return made.result
  }
}

/** The same for each key. */
export function createOncePerKey<T>() {
  const made = new Map<string, { result: T }>()
  return (key: string, make: () => T): T => {
    const known = made.get(key) ?? { result: make() }
    made.set(key, known)
    return known.result
  }
}
