import type { Db, LfsLockRow } from '#database/schema.ts'

export type LfsLockFilter = { path?: string | undefined; id?: string | undefined }

/** Inserts a lock; false when the path is locked. */
export async function insertLfsLock(tx: Db, row: LfsLockRow): Promise<boolean> {
  const inserted = await tx
    .insertInto('lfsLocks')
    .values(row)
    .onConflict((conflict) => conflict.columns(['repositoryId', 'path']).doNothing())
    .returning('id')
    .executeTakeFirst()
  return inserted !== undefined
}

/** Lists locks of a repository, oldest first, from after an id. */
export function listLfsLocks(
  db: Db,
  repositoryId: string,
  { path, id }: LfsLockFilter,
  { after, limit }: { after: string; limit: number },
): Promise<LfsLockRow[]> {
  return db
    .selectFrom('lfsLocks')
    .selectAll()
    .where('repositoryId', '=', repositoryId)
    .where('id', '>', after)
    .$if(path !== undefined, (rows) => rows.where('path', '=', path ?? ''))
    .$if(id !== undefined, (rows) => rows.where('id', '=', id ?? ''))
    .orderBy('id')
    .limit(limit)
    .execute()
}

/** The locks of a repository that a user does not own. */
export function listOthersLfsLocks(
  db: Db,
  repositoryId: string,
  username: string,
): Promise<LfsLockRow[]> {
  return db
    .selectFrom('lfsLocks')
    .selectAll()
    .where('repositoryId', '=', repositoryId)
    .where('username', '<>', username)
    .orderBy('path')
    .execute()
}

/** Deletes a lock, that of one owner if given. Returns it; undefined when there is none. */
export function deleteLfsLock(
  tx: Db,
  { repositoryId, id }: Pick<LfsLockRow, 'repositoryId' | 'id'>,
  owner: string | undefined,
): Promise<LfsLockRow | undefined> {
  return tx
    .deleteFrom('lfsLocks')
    .where('repositoryId', '=', repositoryId)
    .where('id', '=', id)
    .$if(owner !== undefined, (rows) => rows.where('username', '=', owner ?? ''))
    .returningAll()
    .executeTakeFirst()
}

/**
 * Changes the number of locks of a repository, which locks its row until the end of the transaction. Returns the new
 * number; undefined when the repository is gone.
 */
export async function addToLfsLocks(
  tx: Db,
  repositoryId: string,
  added: 1 | -1,
): Promise<number | undefined> {
  const row = await tx
    .updateTable('repositories')
    .set((is) => ({ lfsLocks: is('lfsLocks', '+', added) }))
    .where('id', '=', repositoryId)
    .where('state', '=', 'ready')
    .returning('lfsLocks')
    .executeTakeFirst()
  return row?.lfsLocks
}
