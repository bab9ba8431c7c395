import { formatOf } from '#base/object-id.ts'
import { Problem } from '#base/problem.ts'
import { parseRawCommit, type RawCommit } from '#git/objects/commit-object.ts'
import { mergeTrees } from '#git/objects/merge-trees.ts'
import { emptyTreeId, type NewObject, toCommitObject } from '#git/objects/new-objects.ts'
import type { ObjectReader } from '#git/objects/object-reader.ts'
import { gitCommands } from '#git/process/commands.ts'
import { mergeConflict, tooManyConflicts } from './merge-problems.ts'
import type { Scratch } from './scratch.ts'

type Rebase = {
  directory: string
  scratch: Scratch
  /** Reads the objects of the repository, and those of the merges. */
  objects: ObjectReader
  onto: string
  tip: string
  committer: string
  /** What clients call the branch. */
  branch: string
  /** Ends the rebase. */
  signal: AbortSignal
}

const maxPicks = 250
const commitMaxBytes = 1024 * 1024
// Only their parents matter, which make git merge from them.
const anyIdentity = 'svc <svc@localhost> 0 +0000'

/**
 * Makes commits again on top of another one, as `git rebase` does: merges, commits that have an equivalent there, and
 * those that become empty are left out. Returns the new head and the commits that were made. Throws `merge_conflict` and
 * `too_many_commits`.
 */
export async function rebase(
  request: Rebase,
): Promise<{ head: string; commits: NewObject[]; trees: string[] }> {
  const { directory, scratch, objects, onto, tip, committer } = request
  const listed = await scratch.git.run(
    gitCommands.listPicks(directory, String(maxPicks + 1), onto, tip),
  )
  const picks = listed.split('\n').filter((line) => line !== '')
  if (picks.length > maxPicks) {
    const detail = `A rebase through the API may have at most ${maxPicks} commits; rebase them in a clone.`
    throw new Problem('too_many_commits', detail)
  }
  let current = { id: onto, tree: await treeOf(objects, onto) }
  const made: NewObject[] = []
  const trees: string[] = []
  for (const line of picks) {
    const id = line.slice(1)
    const picked = await readCommit(objects, id)
    const [parent] = picked.parents
    if (parent === current.id) {
      // Nothing to make again.
      current = { id, tree: picked.tree }
      continue
    }
    const former =
      parent === undefined ? emptyTreeId(formatOf(onto)) : await treeOf(objects, parent)
    // Empty commits all make the same change, and are kept.
    if (line.startsWith('=') && picked.tree !== former) continue
    const tree = await pick(request, { id, picked, former, current: current.tree })
    if (tree === current.tree && picked.tree !== former) continue
    const { author, message } = picked
    const commit = toCommitObject({ tree, parents: [current.id], author, committer, message })
    made.push(commit)
    trees.push(tree)
    current = { id: commit.id, tree }
  }
  return { head: current.id, commits: made, trees }
}

type Pick = { id: string; picked: RawCommit; former: string; current: string }

/** Merges the change of a commit into a tree. */
async function pick(
  { directory, scratch, objects, branch, signal }: Rebase,
  { id, picked, former, current }: Pick,
): Promise<string> {
  if (picked.tree === former) return current
  if (former === current) return picked.tree
  const identity = { author: anyIdentity, committer: anyIdentity, message: '' }
  const write = async (tree: string, parents: string[]) => {
    const commit = toCommitObject({ tree, parents, ...identity })
    await scratch.write(commit)
    return commit.id
  }
  // The base of the merge is the parent of both sides: git 2.39 cannot be given another one.
  const base = picked.parents[0] ?? (await write(emptyTreeId(formatOf(picked.tree)), []))
  const ours = await write(current, [base])
  const theirs = picked.parents.length > 0 ? id : await write(picked.tree, [base])
  const merged = await mergeTrees(scratch.git, directory, { ours, theirs, signal })
  if (!merged) throw tooManyConflicts(id)
  if (!merged.conflicts) return merged.tree
  const names = new Map([
    [ours, branch],
    [theirs, id],
  ])
  throw await mergeConflict(objects, { ...merged, conflicts: merged.conflicts, names, commit: id })
}

async function readCommit(objects: ObjectReader, id: string): Promise<RawCommit> {
  const commit = await objects.read(id, commitMaxBytes)
  if (commit?.type !== 'commit')
    throw new Problem('repository_damaged', `The commit ${id} is missing.`)
  return parseRawCommit(commit.content)
}

async function treeOf(objects: ObjectReader, commit: string): Promise<string> {
  const tree = await objects.find(`${commit}^{tree}`)
  if (!tree) throw new Problem('repository_damaged', `The tree of ${commit} is missing.`)
  return tree.id
}
