import type { Db, InstanceRow } from '#database/schema.ts'

/** Reads the id of the service, and which bucket was marked with it. */
export async function readMark(db: Db): Promise<Pick<InstanceRow, 'id' | 'bucket'>> {
  return db.selectFrom('instance').select(['id', 'bucket']).executeTakeFirstOrThrow()
}

export async function recordMark(db: Db, bucket: string | null): Promise<void> {
  await db.updateTable('instance').set({ bucket }).execute()
}

/** Lists the files of some packs that are in the object storage. */
export async function listUploaded(db: Db, limit: number): Promise<string[]> {
  const rows = await db
    .selectFrom('packs')
    .select('key')
    .where('pack', 'is', null)
    .where('retiredAt', 'is', null)
    .limit(limit)
    .execute()
  return rows.map(({ key }) => `${key}.pack`)
}
