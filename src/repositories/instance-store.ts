import type { Db, InstanceRow } from '#database/schema.ts'

/** Reads the row of the service; undefined before its first start. A database of an older version lacks some columns. */
export async function readInstance(db: Db): Promise<InstanceRow | undefined> {
  return db.selectFrom('instance').selectAll().executeTakeFirst()
}

export async function insertInstance(db: Db, id: string): Promise<void> {
  await db.insertInto('instance').values({ id }).execute()
}

/** Records the encryption key that every server must have, in place of another one; false when that has changed. */
export async function recordKeyId(db: Db, keyId: string, former: string | null): Promise<boolean> {
  const row = await db
    .updateTable('instance')
    .set({ keyId })
    .where('keyId', 'is not distinct from', former)
    .returning('id')
    .executeTakeFirst()
  return row !== undefined
}
