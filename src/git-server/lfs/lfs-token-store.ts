import type { Db, LfsTokenRow } from '#database/schema.ts'

/** Inserts a token, and deletes those that have expired. */
export async function insertLfsToken(tx: Db, row: LfsTokenRow, now: number): Promise<void> {
  await tx.deleteFrom('lfsTokens').where('expiresAt', '<=', now).execute()
  await tx.insertInto('lfsTokens').values(row).execute()
}

export function findLfsToken(db: Db, tokenHash: string): Promise<LfsTokenRow | undefined> {
  return db
    .selectFrom('lfsTokens')
    .selectAll()
    .where('tokenHash', '=', tokenHash)
    .executeTakeFirst()
}
