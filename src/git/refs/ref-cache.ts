import type { Git } from '../process/git-process.ts'
import { type Fingerprint, isUnchanged, readFingerprint } from './file-fingerprint.ts'
import { LeftToGitError, type LooseTree, readLooseTree } from './loose-refs.ts'
import { type PackedRefs, readPackedRefs } from './packed-refs.ts'
import { createPeeler } from './peel-tags.ts'
import { createRefSnapshot, type RefSnapshot } from './ref-snapshot.ts'

export type RefCache = ReturnType<typeof createRefCache>

/** How many requests had their refs from memory, from files that were read for them, and from git; and the memory. */
export type RefCounts = { hit: number; read: number; git: number; bytes: number }

/** What is known of a repository. */
type Known = {
  tree?: LooseTree
  packed?: { packed: PackedRefs; look: Fingerprint | undefined }
  snapshot?: RefSnapshot
  /** Ends when its packed refs have been read; until then nobody else reads. */
  reading?: Promise<unknown>
  /** How many requests go to git before its files are looked at again, since they are not understood. */
  leftToGit: number
  size: number
}

const leftToGitAtOnce = 50

/**
 * The refs of repositories, kept in memory. What is kept is checked against the file system at each request, so
 * it makes no difference who changes them.
 */
export function createRefCache({ git, maxBytes }: { git: Pick<Git, 'run'>; maxBytes: number }) {
  // In the order in which they were last used.
  const repositories = new Map<string, Known>()
  const counts = { hit: 0, read: 0, git: 0 }
  const { peel } = createPeeler(git)
  let bytes = 0

  function knownOf(directory: string): Known {
    const known = repositories.get(directory) ?? { leftToGit: 0, size: 0 }
    repositories.delete(directory)
    repositories.set(directory, known)
    return known
  }

  function weigh(directory: string, known: Known): void {
    const size = (known.snapshot?.size() ?? 0) + (known.packed?.packed.size() ?? 0)
    if (size > maxBytes) {
      forget(directory, known)
      return
    }
    if (repositories.get(directory) === known) bytes += size - known.size
    known.size = size
    for (const [oldest, { size }] of repositories) {
      if (bytes <= maxBytes) break
      repositories.delete(oldest)
      bytes -= size
    }
  }

  function forget(directory: string, known: Known): void {
    for (const key of ['tree', 'packed', 'snapshot'] as const) delete known[key]
    known.leftToGit = leftToGitAtOnce
    weigh(directory, known)
  }

  async function look(directory: string, known: Known): Promise<RefSnapshot> {
    // Loose before packed: a ref that is being packed is then seen in one place at least.
    const { tree, hasChanged } = readLooseTree(directory, known.tree)
    known.tree = tree
    if (hasChanged) delete known.snapshot
    const path = `${directory}/packed-refs`
    if (!known.packed || !isUnchanged(known.packed.look, readFingerprint(path))) {
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
    /** The refs of a repository at a moment after this was called; undefined where git must tell them. */
    async of(directory: string): Promise<RefSnapshot | undefined> {
      const known = knownOf(directory)
      // What others are reading may be older than this call.
      while (known.reading !== undefined) await known.reading
      if (known.leftToGit > 0) {
        known.leftToGit -= 1
        counts.git += 1
        return undefined
      }
      try {
        const snapshot = await look(directory, known)
        weigh(directory, known)
        return snapshot
      } catch (error) {
        forget(directory, known)
        counts.git += 1
        // What this program cannot read, git can tell of.
        if (error instanceof LeftToGitError || (error instanceof Error && 'code' in error))
          return undefined
        throw error
      }
    },

    /** What the tags of a snapshot stand for; undefined where git must tell it. */
    peeled: (directory: string, snapshot: RefSnapshot) => peel(directory, snapshot.unpeeled()),

    count: (): RefCounts => ({ ...counts, bytes }),
  }
}
