import { hasRowLocks } from '../database/row-locks.ts'
import type { Db } from '../database/schema.ts'

/** A repository, as those are told of it who hear of its events and execute its runs. */
export type RepositorySummary = {
  id: string
  name: string
  ownerUsername: string
  createdAt: number
}

/** A repository that is ready, by its id; undefined when it is gone. */
export function findRepositorySummary(db: Db, id: string): Promise<RepositorySummary | undefined> {
  return ready(db, id).executeTakeFirst()
}

/**
 * The same, and nobody deletes it until the transaction ends. For whoever locks several rows that belong to it: a
 * deletion has its row first, and then all of those.
 */
export function lockRepositorySummary(tx: Db, id: string): Promise<RepositorySummary | undefined> {
  return ready(tx, id)
    .$if(hasRowLocks(tx), (row) => row.forKeyShare())
    .executeTakeFirst()
}

function ready(db: Db, id: string) {
  return db
    .selectFrom('repositories')
    .select(['id', 'name', 'ownerUsername', 'createdAt'])
    .where('id', '=', id)
    .where('state', '=', 'ready')
}
