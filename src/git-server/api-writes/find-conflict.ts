import { LRUCache } from 'lru-cache'
import { Problem } from '#base/problem.ts'
import { mergeTrees } from '#git/objects/merge-trees.ts'
import type { Git } from '#git/process/git-process.ts'
import type { Directories } from '#repositories/directories/directories.ts'
import type { Repository } from '#repositories/repositories.ts'
import { namesOfConflicts } from './merge-problems.ts'
import { createScratch } from './scratch.ts'

/** The `merge_conflict` of a merge that is only tried; undefined when there is none, or it takes too long to find one. */
export type FindConflict = (
  repository: Repository,
  merge: { ours: string; theirs: string },
) => Promise<Problem | undefined>

type Dependencies = { git: Git; directories: Pick<Directories, 'scratchOf' | 'removeScratch'> }

const timeoutMs = 5000
const maxKnown = 2000

/** Remembers the results, which depend only on the two commits. */
export function createFindConflict(dependencies: Dependencies): FindConflict {
  const known = new LRUCache<string, { problem: Problem | undefined }>({ max: maxKnown })

  async function find(
    repository: Repository,
    merge: { ours: string; theirs: string },
  ): Promise<Problem | undefined> {
    await using scratch = await createScratch(dependencies, repository)
    const signal = AbortSignal.timeout(timeoutMs)
    const merged = await mergeTrees(scratch.git, repository.path, { ...merge, signal })
    if (merged && !merged.conflicts) return undefined
    const names = merged?.conflicts ? namesOfConflicts(merged.conflicts) : 'too many to list'
    const detail = `These files conflict with its branch: ${names}. Rebase it, and push it again.`
    return new Problem('merge_conflict', detail)
  }

  return async (repository, { ours, theirs }) => {
    const key = `${repository.id} ${ours} ${theirs}`
    const remembered = known.get(key)
    if (remembered) return remembered.problem
    try {
      const problem = await find(repository, { ours, theirs })
      known.set(key, { problem })
      return problem
    } catch (error) {
      if (error instanceof DOMException && error.name === 'TimeoutError') return undefined
      throw error
    }
  }
}
