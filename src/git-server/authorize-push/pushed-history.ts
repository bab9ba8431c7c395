import { findObjects } from '#git/objects/object-stream.ts'
import type { Git } from '#git/process/git-process.ts'
import { findForced } from '#git/refs/forced-updates.ts'
import type { RefUpdate } from '#git/refs/refs.ts'
import type { Push } from '../push/push.ts'
import { openQuarantine } from '../push/pushed-objects.ts'

/** The facts about a push that the protections of its refs depend on. */
export type PushedHistory = {
  /** Whether each of some updates is not a fast-forward. */
  findForced: (updates: RefUpdate[]) => Promise<boolean[]>
  /** The commits that some objects are or, being tags, point to. */
  commitsOf: (ids: string[]) => Promise<ReadonlyMap<string, string>>
  /** Finds the ids of objects by their names. */
  find: (names: string[]) => Promise<ReadonlyMap<string, string>>
}

/** Returns the history of a push whose objects may be in quarantine. */
export function historyOf(git: Git, push: Push): PushedHistory {
  const { path } = push.repository
  return {
    async findForced(updates) {
      if (updates.length === 0) return []
      if (push.isFastForward) return updates.map(() => false)
      const pushed = await findForced(await openQuarantine(git, push), path, updates)
      return pushed.map(({ forced }) => forced)
    },
    commitsOf: async (ids) =>
      ids.length === 0 ? new Map() : findCommits(await openQuarantine(git, push), path, ids),
    find: async (names) => findObjects(await openQuarantine(git, push), path, names),
  }
}

/** The commits that some objects of a repository are or point to, as far as they exist. */
export async function findCommits(
  git: Git,
  directory: string,
  ids: string[],
): Promise<Map<string, string>> {
  const found = await findObjects(
    git,
    directory,
    [...new Set(ids)].map((id) => `${id}^{commit}`),
  )
  return new Map([...found].map(([name, id]) => [name.slice(0, -'^{commit}'.length), id]))
}
