import { prepared } from '../database/prepared.ts'
import type { Db, TokenRow } from '../database/schema.ts'

export async function insertToken(db: Db, token: TokenRow): Promise<void> {
  await db.insertInto('tokens').values(token).execute()
}

/** Inserts a token unless one with the same string exists; returns whether it did. */
export async function insertTokenOnce(db: Db, token: TokenRow): Promise<boolean> {
  const row = await db
    .insertInto('tokens')
    .values(token)
    .onConflict((conflict) => conflict.column('tokenHash').doNothing())
    .returning('id')
    .executeTakeFirst()
  return row !== undefined
}

const byHash = prepared((db, { tokenHash }: { tokenHash: string }) =>
  db.selectFrom('tokens').selectAll().where('tokenHash', '=', tokenHash),
)

export async function findTokenByHash(db: Db, tokenHash: string): Promise<TokenRow | undefined> {
  const [row] = await byHash(db, { tokenHash })
  return row
}

const byId = prepared((db, { id }: { id: string }) =>
  db.selectFrom('tokens').selectAll().where('id', '=', id),
)

export async function findToken(db: Db, id: string): Promise<TokenRow | undefined> {
  const [row] = await byId(db, { id })
  return row
}

/** Finds the newest unexpired token of a username. */
export function findLiveTokenOf(
  db: Db,
  username: string,
  now: number,
): Promise<TokenRow | undefined> {
  return db
    .selectFrom('tokens')
    .selectAll()
    .where('username', '=', username)
    .where((is) => is.or([is('expiresAt', 'is', null), is('expiresAt', '>', now)]))
    .orderBy('id', 'desc')
    .limit(1)
    .executeTakeFirst()
}

/** Lists tokens after an id, oldest first. */
export function listTokens(
  db: Db,
  { after, limit }: { after: string; limit: number | undefined },
): Promise<TokenRow[]> {
  const query = db.selectFrom('tokens').selectAll().where('id', '>', after).orderBy('id')
  return (limit === undefined ? query : query.limit(limit)).execute()
}

export async function updateLastUsed(db: Db, id: string, now: number): Promise<void> {
  await db.updateTable('tokens').set({ lastUsedAt: now }).where('id', '=', id).execute()
}

export async function deleteToken(db: Db, id: string): Promise<boolean> {
  const row = await db.deleteFrom('tokens').where('id', '=', id).returning('id').executeTakeFirst()
  return row !== undefined
}

/** Records that the service has been set up; true only for the first caller. */
export async function markInitialized(db: Db, now: number): Promise<boolean> {
  const row = await db
    .insertInto('marks')
    .values({ name: 'initialized', value: now })
    .onConflict((conflict) => conflict.column('name').doNothing())
    .returning('name')
    .executeTakeFirst()
  return row !== undefined
}
