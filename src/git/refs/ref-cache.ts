import { LRUCache } from 'lru-cache'
import { type Fingerprint, isUnchanged, readFingerprint } from '#base/file-fingerprint.ts'
import type { Git } from '../process/git-process.ts'
import { LeftToGitError, type LooseTree, readLooseTree } from './loose-refs.ts'
import { type PackedRefs, readPackedRefs } from './packed-refs.ts'
import { createPeeler } from './peel-tags.ts'
import { createRefSnapshot, type Peeled, type RefSnapshot } from './ref-snapshot.ts'

/**
 * Caches the refs of repositories in memory. Each request validates the entry against the file system, so changes by
 * other processes are seen, too.
 */
export type RefCache = {
  /** Returns a snapshot of a repository's refs, taken after the call; undefined when only git can read them. */
  of: (directory: string) => Promise<RefSnapshot | undefined>
  /** Peels the tags of a snapshot; undefined when only git can do so. */
  peeled: (directory: string, snapshot: RefSnapshot) => Promise<Peeled | undefined>
  count: () => RefCounts
}

/** Numbers of requests served from memory, by reading files, and by git; and the memory in use. */
export type RefCounts = { hit: number; read: number; git: number; bytes: number }

/** The cached state of a repository. */
type Known = {
  tree?: LooseTree
  packed?: { packed: PackedRefs; fingerprint: Fingerprint | undefined }
  snapshot?: RefSnapshot
  /** Resolves when its packed refs have been read; other requests wait for it. */
  reading?: Promise<unknown>
  /** How many requests still go to git before its files, which only git could read, are tried again. */
  leftToGit: number
  size: number
}

const requestsLeftToGit = 50

export function createRefCache({
  git,
  maxBytes,
}: {
  git: Pick<Git, 'run'>
  maxBytes: number
}): RefCache {
  const repositories = new LRUCache<string, Known>({ maxSize: Math.max(1, maxBytes) })
  const counts = { hit: 0, read: 0, git: 0 }
  const { peel } = createPeeler(git)

  function knownOf(directory: string): Known {
    const found = repositories.get(directory)
    if (found) return found
    const known = { leftToGit: 0, size: 1 }
    repositories.set(directory, known, { size: known.size })
    return known
  }

  function weigh(directory: string, known: Known): void {
    const size = 1 + (known.snapshot?.size() ?? 0) + (known.packed?.packed.size() ?? 0)
    if (size > 1 && size > maxBytes) {
      forget(directory, known)
      return
    }
    if (size === known.size) return
    known.size = size
    // It may have been evicted meanwhile.
    if (repositories.peek(directory) !== known) return
    // An entry is weighed when it is added.
    repositories.delete(directory)
    repositories.set(directory, known, { size })
  }

  function forget(directory: string, known: Known): void {
    for (const key of ['tree', 'packed', 'snapshot'] as const) delete known[key]
    known.leftToGit = requestsLeftToGit
    weigh(directory, known)
  }

  async function refresh(directory: string, known: Known): Promise<RefSnapshot> {
    // Loose before packed, so that a ref that is being packed meanwhile is not missed.
    const { tree, hasChanged } = readLooseTree(directory, known.tree)
    known.tree = tree
    if (hasChanged) delete known.snapshot
    const path = `${directory}/packed-refs`
    if (!known.packed || !isUnchanged(known.packed.fingerprint, readFingerprint(path))) {
      delete known.snapshot
      const reading = readPackedRefs(path)
      known.reading = reading.catch(() => {}).finally(() => delete known.reading)
      known.packed = await reading
    }
    counts[known.snapshot ? 'hit' : 'read'] += 1
    known.snapshot ??= createRefSnapshot(tree, known.packed.packed)
    return known.snapshot
  }

  return {
    async of(directory) {
      const known = knownOf(directory)
      // A read in progress may have started before this call, so its result is validated again.
      while (known.reading !== undefined) await known.reading
      if (known.leftToGit > 0) {
        known.leftToGit -= 1
        counts.git += 1
        return undefined
      }
      try {
        const snapshot = await refresh(directory, known)
        weigh(directory, known)
        return snapshot
      } catch (error) {
        forget(directory, known)
        counts.git += 1
        // Git reports system errors and odd files in its own way.
        if (error instanceof LeftToGitError || (error instanceof Error && 'code' in error))
          return undefined
        throw error
      }
    },

    peeled: (directory, snapshot) => peel(directory, snapshot.unpeeled()),

    count: () => ({ ...counts, bytes: repositories.calculatedSize }),
  }
}
