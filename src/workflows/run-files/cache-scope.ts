import type { Database } from '#database/database.ts'
import type { ProtectionRow } from '#database/schema.ts'
import type { Git } from '#git/process/git-process.ts'
import { isAncestor } from '#git/refs/ancestry.ts'
import { zeroId } from '#git/refs/ref-name.ts'
import { branchPrefix, readDefaultBranch, readRefs } from '#git/refs/refs.ts'
import { protectionsOf, toProtection } from '#repositories/protection-rules.ts'
import { listProtections } from '#repositories/protection-store.ts'
import type { HeldRun } from './held-run.ts'

/**
 * Which caches a run can read, and where it saves its own. As on GitHub, it saves to its own branch or tag, and reads from
 * there and from the default branch. In addition, a run of a protected ref reads only what runs of protected refs have
 * saved. So users who may not push there cannot put files into its steps, not even when another branch becomes the default
 * one, or branches are protected, deleted or created meanwhile.
 */
export type CacheScopes = {
  /** Where a run reads: the refs in order. */
  toRead: (run: HeldRun) => Promise<{ refs: string[]; isProtectedOnly: boolean }>
  /** Where a run saves: undefined when its ref was deleted. */
  toSave: (run: HeldRun) => Promise<{ ref: string; isProtected: boolean } | undefined>
}

type Dependencies = {
  db: Database
  git: Git
  directoryOf: (repositoryId: string) => Promise<string>
}

export function createCacheScopes({ db, git, directoryOf }: Dependencies): CacheScopes {
  return {
    async toRead({ repositoryId, ref }) {
      const directory = await directoryOf(repositoryId)
      const rows = await listProtections(db, repositoryId)
      const defaultRef = branchPrefix + (await readDefaultBranch(directory))
      return { refs: [...new Set([ref, defaultRef])], isProtectedOnly: covers(rows, ref) }
    },

    async toSave({ repositoryId, ref, commitId, createdAt }) {
      const directory = await directoryOf(repositoryId)
      const tip = (await readRefs(directory, [ref])).get(ref) ?? zeroId
      if (tip === zeroId) return undefined
      // A run from before the protection may have a commit of a user who may not push any more, and so may a run whose
      // commit is no longer in the ref.
      const rows = await listProtections(db, repositoryId)
      const earlier = rows.filter((row) => row.createdAt < createdAt)
      const isProtected = covers(earlier, ref) && (await isAncestor(git, directory, commitId, tip))
      return { ref, isProtected }
    },
  }
}

function covers(rows: readonly ProtectionRow[], ref: string): boolean {
  return protectionsOf(ref, rows.map(toProtection)).length > 0
}
