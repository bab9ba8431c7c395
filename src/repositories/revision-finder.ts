import { createSemaphore } from '#base/concurrency/semaphore.ts'
import { Problem } from '#base/problem.ts'
import type { ObjectPool } from '#git/objects/object-pool.ts'
import { AmbiguousObjectError } from '#git/objects/object-reader.ts'
import type { Git } from '#git/process/git-process.ts'
import { isReachable } from '#git/refs/ancestry.ts'
import { readNamedRefs } from '#git/refs/refs.ts'
import { type Revision, resolveRevision } from '#git/refs/resolve-revision.ts'
import type { Repository } from './repositories.ts'

type Within = Pick<Repository, 'path'>

/** Finds what the revisions of requests name. Undefined when there is none. Throws `revision_ambiguous`. */
export type RevisionFinder = {
  /** As `resolveRevision` does. */
  find: (repository: Within, revision: string) => Promise<Revision | undefined>
  /** Follows tags to what they lead to in the end, mostly a commit. */
  findPeeled: (repository: Within, revision: string) => Promise<Revision | undefined>
}

/** Abbreviated ids checked at a time: each check may take git as long as listing all commits. */
const maxChecks = 2
const untilEnd = new AbortController().signal

export function createRevisionFinder({
  git,
  pool,
}: {
  git: Pick<Git, 'start'>
  pool: Pick<ObjectPool, 'of'>
}): RevisionFinder {
  const checks = createSemaphore(maxChecks)

  function find({ path }: Within, revision: string): Promise<Revision | undefined> {
    const source = {
      objects: pool.of(path),
      readRefs: (names: string[]) => readNamedRefs(path, names),
      async isReachable(id: string) {
        using _permit = await checks.acquire(untilEnd)
        return isReachable(git, path, id)
      },
    }
    return resolveRevision(source, revision).catch((error) => {
      if (!(error instanceof AmbiguousObjectError)) throw error
      const detail = `"${revision}" is ambiguous; give more digits of the id, or the full name of a ref.`
      throw new Problem('revision_ambiguous', detail)
    })
  }

  return {
    find,

    async findPeeled(repository, revision) {
      const found = await find(repository, revision)
      if (found?.type !== 'tag') return found
      const peeled = await pool.of(repository.path).find(`${found.id}^{}`)
      return peeled ? { ...found, id: peeled.id, type: peeled.type } : found
    },
  }
}
