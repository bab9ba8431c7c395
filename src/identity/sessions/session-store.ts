import type { ExpressionBuilder } from 'kysely'
import { prepared } from '#database/prepared.ts'
import type { Db, LoginCodeRow, Schema, SessionRow } from '#database/schema.ts'

export async function insertSession(db: Db, session: SessionRow): Promise<void> {
  await db.insertInto('sessions').values(session).execute()
}

const byHash = prepared((db, { secretHash }: { secretHash: string }) =>
  db.selectFrom('sessions').selectAll().where('secretHash', '=', secretHash),
)

export async function findSessionByHash(
  db: Db,
  secretHash: string,
): Promise<SessionRow | undefined> {
  const [row] = await byHash(db, { secretHash })
  return row
}

/** Whose sessions: all of a username, or only those of one of its tokens or keys. */
export type SessionHolder =
  | { username: string }
  | Pick<SessionRow, 'username' | 'tokenId' | 'sshKeyId'>

const heldBy = (holder: SessionHolder) => (is: ExpressionBuilder<Schema, 'sessions'>) =>
  is.and([
    is('username', '=', holder.username),
    ...('tokenId' in holder
      ? [
          is('tokenId', 'is not distinct from', holder.tokenId),
          is('sshKeyId', 'is not distinct from', holder.sshKeyId),
        ]
      : []),
  ])

/** Lists the sessions of a holder that have not ended, newest first. */
export function listSessionsOf(
  db: Db,
  holder: SessionHolder,
  { now, idleTimeoutMs }: { now: number; idleTimeoutMs: number },
): Promise<SessionRow[]> {
  return db
    .selectFrom('sessions')
    .selectAll()
    .where(heldBy(holder))
    .where('expiresAt', '>', now)
    .where('seenAt', '>', now - idleTimeoutMs)
    .orderBy('id', 'desc')
    .limit(100)
    .execute()
}

export async function updateSession(
  db: Db,
  id: string,
  changed: Partial<Pick<SessionRow, 'seenAt' | 'expiresAt' | 'unlockedUntil'>>,
): Promise<void> {
  await db.updateTable('sessions').set(changed).where('id', '=', id).execute()
}

/** Deletes the sessions of a user. */
export async function deleteSessionsOf(tx: Db, username: string): Promise<void> {
  await tx.deleteFrom('sessions').where('username', '=', username).execute()
}

/** Deletes a session of a holder; returns whether it existed. */
export async function deleteSession(db: Db, holder: SessionHolder, id: string): Promise<boolean> {
  const query = db.deleteFrom('sessions').where('id', '=', id).where(heldBy(holder))
  return (await query.executeTakeFirstOrThrow()).numDeletedRows > 0n
}

/** Deletes all sessions of a holder except `id`, and returns their number. */
export async function deleteOtherSessions(
  db: Db,
  holder: SessionHolder,
  id: string,
): Promise<number> {
  const query = db.deleteFrom('sessions').where('id', '!=', id).where(heldBy(holder))
  return Number((await query.executeTakeFirstOrThrow()).numDeletedRows)
}

/** Deletes sessions that have expired or were idle for too long, and expired codes. */
export async function deleteEndedSessions(
  db: Db,
  { now, idleTimeoutMs }: { now: number; idleTimeoutMs: number },
): Promise<void> {
  await db
    .deleteFrom('sessions')
    .where((is) => is.or([is('expiresAt', '<=', now), is('seenAt', '<=', now - idleTimeoutMs)]))
    .execute()
  await db.deleteFrom('loginCodes').where('expiresAt', '<=', now).execute()
}

export async function insertLoginCode(db: Db, code: LoginCodeRow): Promise<void> {
  await db.insertInto('loginCodes').values(code).execute()
}

export function findLoginCode(db: Db, codeHash: string): Promise<LoginCodeRow | undefined> {
  return db.selectFrom('loginCodes').selectAll().where('codeHash', '=', codeHash).executeTakeFirst()
}

/** Deletes a code and returns it; undefined if another request was first. */
export function takeLoginCode(db: Db, codeHash: string): Promise<LoginCodeRow | undefined> {
  return db
    .deleteFrom('loginCodes')
    .where('codeHash', '=', codeHash)
    .returningAll()
    .executeTakeFirst()
}
