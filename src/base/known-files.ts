import { LRUCache } from 'lru-cache'
import { type Fingerprint, isUnchanged } from './file-fingerprint.ts'

/** What was read from the files or folders at some paths, of which the last used are remembered. */
export type KnownFiles<T> = {
  /** What was read, if the path has not changed since. */
  get: (path: string, now: Fingerprint | undefined) => T | undefined
  /** The fingerprint is one from before the read. */
  set: (path: string, fingerprint: Fingerprint, value: T) => void
}

export function createKnownFiles<T>(maxPaths: number): KnownFiles<T> {
  const known = new LRUCache<string, { fingerprint: Fingerprint; value: T }>({
    maxSize: maxPaths,
    sizeCalculation: () => 1,
  })
  return {
    get(path, now) {
      const found = known.get(path)
      return found && isUnchanged(found.fingerprint, now) ? found.value : undefined
    },
    set: (path, fingerprint, value) => void known.set(path, { fingerprint, value }),
  }
}
