import type { Db, LfsTokenRow } from '#database/schema.ts'

/** Inserts a token, and deletes those that expired before a time. */
export async function insertLfsToken(tx: Db, row: LfsTokenRow, before: number): Promise<void> {
  await tx.deleteFrom('lfsTokens').where('expiresAt', '<=', before).execute()
  await tx.insertInto('lfsTokens').values(row).execute()
}

export function findLfsToken(db: Db, tokenHash: string): Promise<LfsTokenRow | undefined> {
  return db
    .selectFrom('lfsTokens')
    .selectAll()
    .where('tokenHash', '=', tokenHash)
    .executeTakeFirst()
}
