import type { Db, ProtectionRow } from '../database/schema.ts'

/** Protects a branch; false when it was protected already. */
export async function insertProtection(db: Db, protection: ProtectionRow): Promise<boolean> {
  const row = await db
    .insertInto('protections')
    .values(protection)
    .onConflict((conflict) => conflict.columns(['repositoryId', 'branch']).doNothing())
    .returning('branch')
    .executeTakeFirst()
  return row !== undefined
}

/** The protected branches and patterns of a repository, oldest first. */
export async function listProtections(db: Db, repositoryId: string): Promise<string[]> {
  const rows = await db
    .selectFrom('protections')
    .select('branch')
    .where('repositoryId', '=', repositoryId)
    .orderBy('createdAt')
    .orderBy('branch')
    .execute()
  return rows.map(({ branch }) => branch)
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
