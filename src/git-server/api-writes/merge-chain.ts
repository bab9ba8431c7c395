import type { Principal } from '#access/principal.ts'
import { Problem } from '#base/problem.ts'
import { type NewObject, toIdentityLine } from '#git/objects/new-objects.ts'
import { openObjects } from '#git/objects/object-reader.ts'
import type { Git } from '#git/process/git-process.ts'
import type { Body } from '#git/protocol/request-body.ts'
import { isAncestor } from '#git/refs/ancestry.ts'
import type { Directories } from '#repositories/directories/directories.ts'
import type { Repository } from '#repositories/repositories.ts'
import { identitiesOf } from './identities.ts'
import { type MergeSpec, makeMerge } from './make-merge.ts'
import { limitedMerge } from './merge-branch.ts'
import { createScratch } from './scratch.ts'

/** One of the merges of a chain. */
type ChainStep = Pick<MergeSpec, 'method' | 'head' | 'message'> & {
  /** Who merges it. */
  by: Pick<Principal, 'username'>
  /** What clients call its head. */
  name: string
}

/** What became of a step: the commit that it has led to, or why there is none. */
export type ChainResult = { commitId: string } | { fault: Problem }

/**
 * Merges commits one after the other, each into the result of those before, without moving a branch. A step that is
 * impossible is left out. `keep` gets the objects before they go.
 */
export type MergeChain = (
  chain: {
    repository: Repository
    branch: string
    tip: string
    steps: readonly ChainStep[]
    /** The time of its commits, in milliseconds. */
    now: number
  },
  keep: (made: { results: ChainResult[]; pack: Body | undefined }) => Promise<void>,
  signal: AbortSignal,
) => Promise<ChainResult[]>

type Dependencies = {
  git: Git
  directories: Pick<Directories, 'scratchOf' | 'removeScratch'>
  baseUrl: () => string
}

export function createMergeChain(dependencies: Dependencies): MergeChain {
  const { baseUrl } = dependencies
  return async ({ repository, branch, tip, steps, now }, keep, signal) => {
    await using scratch = await createScratch(dependencies, repository)
    await using objects = await openObjects(scratch.git, repository.path)
    const results: ChainResult[] = []
    const commits: NewObject[] = []
    const trees: string[] = []
    let before = tip
    for (const { by, name, ...step } of steps) {
      const { author, committer } = identitiesOf(by, {}, { now, baseUrl: baseUrl() })
      const lines = { author: toIdentityLine(author), committer: toIdentityLine(committer) }
      const names = { before: branch, head: name }
      const merge = { ...step, ...lines, directory: repository.path, before, names }
      try {
        // Another one of the chain may have brought it.
        if (await isAncestor(scratch.git, repository.path, step.head, before)) {
          results.push({ commitId: before })
          continue
        }
        const made = await limitedMerge(signal, (either) =>
          makeMerge({ ...merge, signal: either }, scratch, objects),
        )
        for (const commit of made?.commits ?? []) await scratch.write(commit)
        commits.push(...(made?.commits ?? []))
        trees.push(...(made?.trees ?? []))
        before = made?.id ?? before
        results.push({ commitId: before })
      } catch (error) {
        if (!(error instanceof Problem)) throw error
        results.push({ fault: error })
      }
    }
    await keep({
      results,
      pack: commits.length > 0 ? await scratch.packOf(commits, trees) : undefined,
    })
    return results
  }
}
