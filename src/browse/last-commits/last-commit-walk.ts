import { createTimeSlices } from '#base/time-slices.ts'
import { changedNames, type TreeBuffer } from '#git/objects/tree-buffer.ts'

/** A commit with its parents, as `git rev-list --parents` lists it. */
export type WalkedCommit = { id: string; parents: readonly string[] }

/** Entries without an answer yet, by the commit in which they still look as they do at the start. */
export type WaitingEntries = Map<string, Set<string>>

/** Last commits of entries by raw name. */
export type LastCommitsByName = ReadonlyMap<string, string>

export type WalkSource = {
  /** Each commit after those that reach it. */
  commits: AsyncIterable<WalkedCommit>
  /** The id of the folder in a commit; undefined where it does not exist. */
  folderIn: (commit: string) => Promise<string | undefined>
  open: (treeId: string) => Promise<TreeBuffer>
  /** Answers for the folder in a commit that are known from before, and whether more cannot be known. */
  known: (commit: string) => { byName: LastCommitsByName; isFinal: boolean } | undefined
}

/**
 * Finds the commit that last changed each entry of a folder, as `git log -1 -- <entry>` does with its default history
 * simplification: an entry is passed on to the first parent, in order, that has it with the same mode and id, and a
 * commit without such a parent is the answer. So each entry is in one commit at a time, and all entries of a commit are
 * compared at once. Begins with names in the first commit, or with entries that wait from a walk before. When the commits
 * end with an error, `waiting` has what a later walk can go on with. Returns the names without an answer.
 */
export async function walkLastCommits(
  names: Iterable<string>,
  source: WalkSource & { waiting?: WaitingEntries },
  onAnswer: (name: string, commit: string) => void,
): Promise<Set<string>> {
  const { commits, folderIn, open, known, waiting = new Map<string, Set<string>>() } = source
  const slices = createTimeSlices()
  const unanswered = new Set<string>()
  let start: Set<string> | undefined = new Set(names)

  function passOn(to: string, passed: Set<string>): void {
    const there = waiting.get(to)
    if (!there) {
      if (passed.size > 0) waiting.set(to, passed)
      return
    }
    const [larger, smaller] = there.size < passed.size ? [passed, there] : [there, passed]
    for (const name of smaller) larger.add(name)
    waiting.set(to, larger)
  }

  /** Removes the entries with a known answer. */
  function inherit(commit: string, entries: Set<string>): void {
    const before = known(commit)
    if (!before) return
    for (const name of entries) {
      const answer = before.byName.get(name)
      if (answer !== undefined) onAnswer(name, answer)
      else if (before.isFinal) unanswered.add(name)
      else continue
      entries.delete(name)
    }
  }

  for await (const { id, parents } of commits) {
    const entries = start?.size ? start : waiting.get(id)
    start = undefined
    waiting.delete(id)
    await slices.rest()
    if (entries) {
      inherit(id, entries)
      let left = entries
      const folder = left.size > 0 ? await folderIn(id) : undefined
      for (const parent of parents) {
        if (left.size === 0 || folder === undefined) break
        const folderOfParent = await folderIn(parent)
        if (folderOfParent === undefined) continue
        const passed = left
        left = new Set()
        if (folderOfParent !== folder) {
          const [tree, treeOfParent] = await Promise.all([open(folder), open(folderOfParent)])
          for (const name of changedNames(tree, treeOfParent)) {
            if (passed.delete(name)) left.add(name)
          }
        }
        passOn(parent, passed)
      }
      for (const name of left) onAnswer(name, id)
    }
    if (waiting.size === 0) break
  }
  for (const entries of [start ?? [], ...waiting.values()])
    for (const name of entries) unanswered.add(name)
  return unanswered
}
