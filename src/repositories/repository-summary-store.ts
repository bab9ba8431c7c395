import { hasRowLocks } from '#database/row-locks.ts'
import type { Db, RepositoryRow } from '#database/schema.ts'

/** A repository as described in event payloads and workflow runs. */
export type RepositorySummary = Pick<
  RepositoryRow,
  'id' | 'name' | 'ownerUsername' | 'createdAt' | 'visibility'
>

/** Finds a ready repository by id; undefined when it was deleted. */
export function findRepositorySummary(db: Db, id: string): Promise<RepositorySummary | undefined> {
  return ready(db, id).executeTakeFirst()
}

/**
 * The same, and locks it against deletion until the transaction ends. Required before locking several rows of a
 * repository: a deletion locks the repository first, then its rows, so this order avoids deadlocks.
 */
export function lockRepositorySummary(tx: Db, id: string): Promise<RepositorySummary | undefined> {
  return ready(tx, id)
    .$if(hasRowLocks(tx), (row) => row.forKeyShare())
    .executeTakeFirst()
}

/**
 * The same, and makes other transactions with this lock wait: for one that measures rows of the repository and then adds to
 * them, so that no limit is exceeded.
 */
export function lockRepositoryExclusively(
  tx: Db,
  id: string,
): Promise<RepositorySummary | undefined> {
  return ready(tx, id)
    .$if(hasRowLocks(tx), (row) => row.forNoKeyUpdate())
    .executeTakeFirst()
}

function ready(db: Db, id: string) {
  return db
    .selectFrom('repositories')
    .select(['id', 'name', 'ownerUsername', 'createdAt', 'visibility'])
    .where('id', '=', id)
    .where('state', '=', 'ready')
}
