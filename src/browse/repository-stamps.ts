import { maySee } from '#access/may.ts'
import type { Principal } from '#access/principal.ts'
import { readDatabaseStamp } from '#database/database-stamp.ts'
import type { Db } from '#database/schema.ts'
import type { RefCache } from '#git/refs/ref-cache.ts'
import type { RefSnapshot } from '#git/refs/ref-snapshot.ts'
import type { Directories } from '#repositories/directories/directories.ts'
import { findRepository } from '#repositories/repository-store.ts'

/**
 * Returns the stamp of a repository that a principal can see, by its name: as long as it stays the same, so do all responses
 * about the repository to that principal. It changes with any commit to the database and any change of the refs, by any
 * process. It is undefined while SQLite is in a transaction, for an invisible repository, and where only git can read the refs.
 */
export type StampOf = (principal: Principal, name: string) => Promise<string | undefined>

type Dependencies = { db: Db; refCache: RefCache; directories: Pick<Directories, 'pathOf'> }

export function createRepositoryStamps({ db, refCache, directories }: Dependencies): StampOf {
  const numbers = new WeakMap<RefSnapshot, number>()
  let count = 0

  function numberOf(snapshot: RefSnapshot): number {
    const known = numbers.get(snapshot)
    if (known !== undefined) return known
    count += 1
    numbers.set(snapshot, count)
    return count
  }

  return async (principal, name) => {
    // Before the rest, so that a later change of what is read here has another stamp.
    const database = await readDatabaseStamp(db)
    // An invisible repository is treated like a missing one, also in the work that it causes.
    const repository = await findRepository(db, { name }, principal.username)
    if (database === undefined || !repository || !maySee(principal, repository)) return undefined
    const snapshot = await refCache.of(directories.pathOf(repository.id))
    return snapshot && `${database} ${numberOf(snapshot)}`
  }
}
