import type { Db, SigningKeyRow } from '#database/schema.ts'

/** Lists the signing keys, the newest first. */
export function listSigningKeys(db: Db): Promise<SigningKeyRow[]> {
  return db
    .selectFrom('signingKeys')
    .selectAll()
    .orderBy('createdAt', 'desc')
    .orderBy('id', 'desc')
    .execute()
}

export async function insertSigningKey(db: Db, key: SigningKeyRow): Promise<void> {
  await db.insertInto('signingKeys').values(key).execute()
}

export async function deleteSigningKeys(db: Db, createdBefore: number): Promise<void> {
  await db.deleteFrom('signingKeys').where('createdAt', '<', createdBefore).execute()
}
