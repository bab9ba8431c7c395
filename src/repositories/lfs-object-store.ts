import type { Db, LfsObjectRow } from '#database/schema.ts'

/** Lists those of some LFS objects that a repository has. */
export function listLfsObjects(
  db: Db,
  repositoryId: string,
  oids: readonly string[],
): Promise<LfsObjectRow[]> {
  return db
    .selectFrom('lfsObjects')
    .selectAll()
    .where('repositoryId', '=', repositoryId)
    .where('oid', 'in', oids)
    .execute()
}

/** Inserts an LFS object; false when the repository has it already. */
export async function insertLfsObject(tx: Db, row: LfsObjectRow): Promise<boolean> {
  const inserted = await tx
    .insertInto('lfsObjects')
    .values(row)
    .onConflict((conflict) => conflict.columns(['repositoryId', 'oid']).doNothing())
    .returning('oid')
    .executeTakeFirst()
  return inserted !== undefined
}

/** Starts anew the time after which some objects are deleted unless a pointer names them. */
export async function renewLfsObjects(
  db: Db,
  repositoryId: string,
  oids: readonly string[],
): Promise<void> {
  await db
    .updateTable('lfsObjects')
    .set({ unreferencedAt: null })
    .where('repositoryId', '=', repositoryId)
    .where('oid', 'in', oids)
    .where('unreferencedAt', 'is not', null)
    .execute()
}

/** The bytes of all LFS objects of a repository. */
export async function sumLfsObjects(db: Db, repositoryId: string): Promise<number> {
  const { bytes } = await db
    .selectFrom('lfsObjects')
    .select((is) => is.fn.sum<number | string | null>('size').as('bytes'))
    .where('repositoryId', '=', repositoryId)
    .executeTakeFirstOrThrow()
  return Number(bytes ?? 0)
}

/** All LFS objects by the ids of their repositories. */
export async function listAllLfsObjects(db: Db): Promise<Map<string, LfsObjectRow[]>> {
  return Map.groupBy(
    await db.selectFrom('lfsObjects').selectAll().execute(),
    ({ repositoryId }) => repositoryId,
  )
}

/** Notes that all LFS objects are files of this machine. */
export async function forgetBucketKeys(tx: Db): Promise<void> {
  await tx.updateTable('lfsObjects').set({ bucketKey: null }).execute()
}
