import type { CliLoginRow, Db } from '#database/schema.ts'

export async function insertCliLogin(db: Db, login: CliLoginRow): Promise<void> {
  await db.insertInto('cliLogins').values(login).execute()
}

export function findCliLogin(db: Db, codeHash: string): Promise<CliLoginRow | undefined> {
  return db.selectFrom('cliLogins').selectAll().where('codeHash', '=', codeHash).executeTakeFirst()
}

/** Records the consent of a token's user; false if the code is gone, or consent was given. */
export async function consentToCliLogin(
  db: Db,
  codeHash: string,
  tokenId: string,
): Promise<boolean> {
  const query = db
    .updateTable('cliLogins')
    .set({ tokenId })
    .where('codeHash', '=', codeHash)
    .where('tokenId', 'is', null)
  return (await query.executeTakeFirstOrThrow()).numUpdatedRows > 0n
}

/** Deletes a login of a command line; false if another request was first. */
export async function deleteCliLogin(db: Db, codeHash: string): Promise<boolean> {
  const query = db.deleteFrom('cliLogins').where('codeHash', '=', codeHash)
  return (await query.executeTakeFirstOrThrow()).numDeletedRows > 0n
}

export async function deleteOldCliLogins(db: Db, now: number): Promise<void> {
  await db.deleteFrom('cliLogins').where('expiresAt', '<=', now).execute()
}
