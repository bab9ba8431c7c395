/** Limits how many places are held at once, overall and per key. Requests do not wait. */
export function createQuota({ overall, perKey }: { overall: number; perKey: number }) {
  const heldBy = new Map<string, number>()
  let held = 0

  return {
    /** Acquires a place until it is disposed; returns the limit that is reached instead. */
    acquire(key: string): Disposable | 'per-key' | 'overall' {
      const own = heldBy.get(key) ?? 0
      if (own >= perKey) return 'per-key'
      if (held >= overall) return 'overall'
      heldBy.set(key, own + 1)
      held += 1
      return {
        [Symbol.dispose]() {
          const left = (heldBy.get(key) ?? 1) - 1
          if (left > 0) heldBy.set(key, left)
          else heldBy.delete(key)
          held -= 1
        },
      }
    },
  }
}
