import { prepared } from '#database/prepared.ts'
import { hasRowLocks } from '#database/row-locks.ts'
import type { Db, ProtectionRow } from '#database/schema.ts'

/** Inserts a protection; false when there is one of the same pattern. */
export async function insertProtection(db: Db, protection: ProtectionRow): Promise<boolean> {
  const row = await db
    .insertInto('protections')
    .values(protection)
    .onConflict((conflict) => conflict.columns(['repositoryId', 'branch']).doNothing())
    .returning('branch')
    .executeTakeFirst()
  return row !== undefined
}

/** Changes the rules of a protection; false when they are the same, or there is none. */
export async function updateProtection(
  db: Db,
  { repositoryId, branch, owners, requires }: Omit<ProtectionRow, 'createdAt'>,
): Promise<boolean> {
  const row = await db
    .updateTable('protections')
    .set({ owners, requires })
    .where('repositoryId', '=', repositoryId)
    .where('branch', '=', branch)
    .where((is) => is.or([is('owners', '<>', owners), is('requires', '<>', requires)]))
    .returning('branch')
    .executeTakeFirst()
  return row !== undefined
}

/** Locks a protection until the end of the transaction; undefined when there is none. */
export function lockProtection(
  tx: Db,
  { repositoryId, branch }: Pick<ProtectionRow, 'repositoryId' | 'branch'>,
): Promise<ProtectionRow | undefined> {
  return tx
    .selectFrom('protections')
    .selectAll()
    .where('repositoryId', '=', repositoryId)
    .where('branch', '=', branch)
    .$if(hasRowLocks(tx), (rows) => rows.forUpdate())
    .executeTakeFirst()
}

const ofRepository = prepared((db, { repositoryId }: { repositoryId: string }) =>
  db
    .selectFrom('protections')
    .selectAll()
    .where('repositoryId', '=', repositoryId)
    .orderBy('createdAt')
    .orderBy('branch'),
)

/** The protections of a repository, oldest first. */
export function listProtections(db: Db, repositoryId: string): Promise<ProtectionRow[]> {
  return ofRepository(db, { repositoryId })
}

/** The protections of all repositories whose ids lie in a range, both ends included. */
export function listProtectionsBetween(
  db: Db,
  first: string,
  last: string,
): Promise<ProtectionRow[]> {
  return db
    .selectFrom('protections')
    .selectAll()
    .where('repositoryId', '>=', first)
    .where('repositoryId', '<=', last)
    .orderBy('createdAt')
    .orderBy('branch')
    .execute()
}

/** The protections of several repositories. */
export function listProtectionsOfAll(
  db: Db,
  repositoryIds: readonly string[],
): Promise<ProtectionRow[]> {
  if (repositoryIds.length === 0) return Promise.resolve([])
  return db
    .selectFrom('protections')
    .selectAll()
    .where('repositoryId', 'in', repositoryIds)
    .orderBy('createdAt')
    .orderBy('branch')
    .execute()
}

export async function deleteProtection(
  db: Db,
  repositoryId: string,
  branch: string,
): Promise<boolean> {
  const row = await db
    .deleteFrom('protections')
    .where('repositoryId', '=', repositoryId)
    .where('branch', '=', branch)
    .returning('branch')
    .executeTakeFirst()
  return row !== undefined
}
