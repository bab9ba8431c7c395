import { LRUCache } from 'lru-cache'
import { createSingleFlight } from '#base/concurrency/single-flight.ts'
import { type Fingerprint, isUnchanged, readFingerprint } from '#base/file-fingerprint.ts'
import { gitCommands } from '../process/commands.ts'
import type { Git } from '../process/git-process.ts'
import { LeftToGitError, type LooseTree, readLooseTree } from './loose-refs.ts'
import { type PackedLines, readPackedLines } from './packed-lines.ts'
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
  packed?: { packed: PackedLines; fingerprint: Fingerprint | undefined }
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
      const reading = readPackedLines(path)
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

const maxCached = 50_000

/** Peels tags, and caches the results, which never change: objects are immutable. */
function createPeeler(git: Pick<Git, 'run'>) {
  // By size, because `max` would allocate all at once.
  const known = new LRUCache<string, string>({ maxSize: maxCached, sizeCalculation: () => 1 })
  const share = createSingleFlight<Peeled | undefined>()

  async function readPeeled(directory: string, ids: string[]): Promise<Peeled | undefined> {
    const input = ids.map((id) => `info ${id}\ninfo ${id}^{}\n`).join('')
    const output = await git.run(gitCommands.readObjects(directory), { input })
    const lines = output.split('\n').map((line) => line.split(' '))
    const found = new Map<string, string>()
    for (const [index, id] of ids.entries()) {
      const [object, end] = [lines[2 * index], lines[2 * index + 1]]
      // Git prints `<id> missing` for a missing object.
      if (object?.[0] !== id || object.length !== 3 || end?.length !== 3) return undefined
      found.set(id, object[1] === 'tag' ? (end[0] ?? '') : '')
    }
    return found
  }

  return {
    /** Peels objects; undefined when the repository lacks one of them. */
    async peel(directory: string, ids: string[]): Promise<Peeled | undefined> {
      const peeled = new Map<string, string>()
      const missing = new Set<string>()
      for (const id of ids) {
        const value = known.get(id)
        if (value === undefined) missing.add(id)
        else peeled.set(id, value)
      }
      if (missing.size === 0) return peeled
      const unknown = [...missing]
      const found = await share(`${directory} ${unknown}`, () => readPeeled(directory, unknown))
      if (!found) return undefined
      for (const [id, value] of found) {
        known.set(id, value)
        peeled.set(id, value)
      }
      return peeled
    },
  }
}
