/** Serializes work that shares a key, first come, first served; `isHeld` is whether there is such work. */
export function createKeyedMutex() {
  const last = new Map<string, Promise<unknown>>()

  async function serialize<T>(key: string, work: () => Promise<T>): Promise<T> {
    const before = last.get(key) ?? Promise.resolve()
    const done = before.then(work, work)
    last.set(key, done)
    try {
      return await done
    } finally {
      if (last.get(key) === done) last.delete(key)
    }
  }

  return Object.assign(serialize, { isHeld: (key: string) => last.has(key) })
}
