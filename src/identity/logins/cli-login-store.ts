import { sql } from 'kysely'
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
  consent: Pick<CliLoginRow, 'tokenId' | 'sessionId'>,
): Promise<boolean> {
  const query = db
    .updateTable('cliLogins')
    .set(consent)
    .where('codeHash', '=', codeHash)
    .where('tokenId', 'is', null)
  return (await query.executeTakeFirstOrThrow()).numUpdatedRows > 0n
}

/** Deletes a login of a command line; false if another request was first, or the session of the consent has ended. */
export async function takeCliLogin(tx: Db, codeHash: string, now: number): Promise<boolean> {
  const query = tx
    .deleteFrom('cliLogins')
    .where('codeHash', '=', codeHash)
    .where(
      sql<boolean>`exists (
        select 1 from sessions where sessions.id = cli_logins.session_id and sessions.expires_at > ${now}
      )`,
    )
  return (await query.executeTakeFirstOrThrow()).numDeletedRows > 0n
}

/** Deletes the logins of command lines to which a user has consented. */
export async function deleteConsentsOf(tx: Db, username: string): Promise<void> {
  const tokens = tx.selectFrom('tokens').select('id').where('username', '=', username)
  await tx.deleteFrom('cliLogins').where('tokenId', 'in', tokens).execute()
}

export async function deleteOldCliLogins(db: Db, now: number): Promise<void> {
  await db.deleteFrom('cliLogins').where('expiresAt', '<=', now).execute()
}
