import type { CommitObject } from '#git/objects/commit-object.ts'
import type { ObjectReader } from '#git/objects/object-reader.ts'
import type { CommitsById } from './commits-by-id.ts'
import { commitUnreadable } from './revisions.ts'

export type ListedCommit = { id: string; commit: CommitObject }

/** With more branches of history than this at a time, git is faster. */
const walkMaxWaiting = 500

/**
 * Walks a history in the order of git-log(1): by date of commit, newest first, of equal ones in the order of their
 * children. At last yields undefined, if the history has too many branches at a time. Reads one commit after the other,
 * which for a few of them is faster than starting git.
 */
export async function* walkByDate(
  objects: ObjectReader,
  commits: CommitsById,
  tip: string,
): AsyncGenerator<ListedCommit | undefined, void, undefined> {
  const seen = new Set([tip])
  const waiting = [await mustRead(objects, commits, tip)]
  for (let next = waiting.shift(); next; next = waiting.shift()) {
    yield next
    if (waiting.length + next.commit.parents.length > walkMaxWaiting) {
      yield undefined
      return
    }
    // A commit may name a parent several times.
    const parents = [...new Set(next.commit.parents)].filter((id) => !seen.has(id))
    for (const id of parents) seen.add(id)
    const found = await Promise.all(parents.map((id) => mustRead(objects, commits, id)))
    for (const one of found) {
      const later = waiting.findIndex(({ commit }) => dateOf(commit) < dateOf(one.commit))
      waiting.splice(later === -1 ? waiting.length : later, 0, one)
    }
  }
}

/** Reads a commit. Throws `git_limit_exceeded` for one that is unreadable. */
export async function mustRead(
  objects: ObjectReader,
  commits: CommitsById,
  id: string,
): Promise<ListedCommit> {
  const commit = await commits(objects, id)
  if (!commit) throw commitUnreadable(id)
  return { id, commit }
}

const dateOf = ({ committer }: CommitObject) => committer.at
