import { mergeTrees } from '#git/objects/merge-trees.ts'
import { type NewObject, toCommitObject } from '#git/objects/new-objects.ts'
import type { ObjectReader } from '#git/objects/object-reader.ts'
import { mergeConflict, tooManyConflicts } from './merge-problems.ts'
import { rebase } from './rebase.ts'
import { toMessage } from './refusals.ts'
import type { Scratch } from './scratch.ts'

/** A merge whose commits are known. */
export type MergeSpec = {
  directory: string
  method: 'merge' | 'squash' | 'rebase'
  /** The id of the commit that is merged into. */
  before: string
  /** The id of the commit that is merged. */
  head: string
  /** What clients call both. */
  names: { before: string; head: string }
  message: string
  /** Lines as in commits. */
  author: string
  committer: string
  /** Ends the merge. */
  signal: AbortSignal
}

/** What a merge makes: its last commit, all commits that did not exist, and their trees. */
export type MergedCommits = { id: string; commits: NewObject[]; trees: string[] }

/**
 * Merges in a temporary object directory; `objects` reads it. Undefined when there is nothing to merge. Throws
 * `merge_conflict` and `too_many_commits`.
 */
export async function makeMerge(
  merge: MergeSpec,
  scratch: Scratch,
  objects: ObjectReader,
): Promise<MergedCommits | undefined> {
  const { directory, method, before, head, names, author, committer, message, signal } = merge
  if (method === 'rebase') {
    const picking = { onto: before, tip: head, committer, branch: names.before, signal }
    const { head: id, ...made } = await rebase({ directory, scratch, objects, ...picking })
    return id === before ? undefined : { id, ...made }
  }
  const merged = await mergeTrees(scratch.git, directory, { ours: before, theirs: head, signal })
  if (!merged) throw tooManyConflicts()
  const { tree, conflicts } = merged
  const named = new Map([
    [before, names.before],
    [head, names.head],
  ])
  if (conflicts) throw await mergeConflict(objects, { tree, conflicts, names: named })
  const isSquash = method === 'squash'
  if (isSquash && (await objects.find(`${before}^{tree}`))?.id === tree) return undefined
  const parents = isSquash ? [before] : [before, head]
  const commit = toCommitObject({ tree, parents, author, committer, message: toMessage(message) })
  return { id: commit.id, commits: [commit], trees: [tree] }
}
