import type { PageRequest } from '#base/list-all.ts'
import { prepared } from '#database/prepared.ts'
import { hasRowLocks } from '#database/row-locks.ts'
import type { Db, TokenRow } from '#database/schema.ts'
import { addUser, isEnabled, updateLastSeen } from '../user-store.ts'

const ofEnabledUser = isEnabled('tokens.username')

export async function insertToken(db: Db, token: TokenRow): Promise<void> {
  // A delegation has locked the user with the other token.
  if (token.delegatedFrom === null) await addUser(db, token.username, token.createdAt)
  await db.insertInto('tokens').values(token).execute()
}

/** Inserts a token unless one with the same string exists; returns whether it did. */
export async function insertTokenOnce(db: Db, token: TokenRow): Promise<boolean> {
  await addUser(db, token.username, token.createdAt)
  const row = await db
    .insertInto('tokens')
    .values(token)
    .onConflict((conflict) => conflict.column('tokenHash').doNothing())
    .returning('id')
    .executeTakeFirst()
  return row !== undefined
}

const byHash = prepared((db, { tokenHash }: { tokenHash: string }) =>
  db.selectFrom('tokens').selectAll().where('tokenHash', '=', tokenHash).where(ofEnabledUser),
)

/** Finds a token by the hash of its string, unless its user is disabled. */
export async function findTokenByHash(db: Db, tokenHash: string): Promise<TokenRow | undefined> {
  const [row] = await byHash(db, { tokenHash })
  return row
}

const byId = prepared((db, { id }: { id: string }) =>
  db.selectFrom('tokens').selectAll().where('id', '=', id).where(ofEnabledUser),
)

/** Finds a token, unless its user is disabled. */
export async function findToken(db: Db, id: string): Promise<TokenRow | undefined> {
  const [row] = await byId(db, { id })
  return row
}

/** Finds a token, and prevents its deletion until the transaction ends. */
export function lockToken(tx: Db, id: string): Promise<TokenRow | undefined> {
  const query = tx.selectFrom('tokens').selectAll().where('id', '=', id)
  return (hasRowLocks(tx) ? query.forUpdate() : query).executeTakeFirst()
}

/** Finds the newest unexpired token of a username that has no limits and was not delegated. */
export function findLiveTokenOf(
  db: Db,
  username: string,
  now: number,
): Promise<TokenRow | undefined> {
  return db
    .selectFrom('tokens')
    .selectAll()
    .where('username', '=', username)
    .where(ofEnabledUser)
    .where('repositories', 'is', null)
    .where('refs', 'is', null)
    .where('delegatedFrom', 'is', null)
    .where((is) => is.or([is('expiresAt', 'is', null), is('expiresAt', '>', now)]))
    .orderBy('id', 'desc')
    .limit(1)
    .executeTakeFirst()
}

/** Finds the oldest unexpired admin token that was not delegated. */
export function findLiveAdmin(db: Db, now: number): Promise<TokenRow | undefined> {
  return adminTokens(db, now).selectAll().orderBy('id').limit(1).executeTakeFirst()
}

/** Those of some usernames that have an unexpired admin token that was not delegated. */
export async function listAdmins(
  db: Db,
  usernames: readonly string[],
  now: number,
): Promise<Set<string>> {
  const rows = await adminTokens(db, now)
    .select('username')
    .distinct()
    .where('username', 'in', usernames)
    .execute()
  return new Set(rows.map(({ username }) => username))
}

function adminTokens(db: Db, now: number) {
  return (
    db
      .selectFrom('tokens')
      .where(ofEnabledUser)
      .where('delegatedFrom', 'is', null)
      // The column has words separated by spaces, and no other permission contains `admin`.
      .where('permissions', 'like', '%admin%')
      .where((is) => is.or([is('expiresAt', 'is', null), is('expiresAt', '>', now)]))
  )
}

/** Returns those of `usernames` for which an unexpired token exists. */
export async function listLiveUsernames(
  db: Db,
  usernames: string[],
  now: number,
): Promise<string[]> {
  const rows = await db
    .selectFrom('tokens')
    .select('username')
    .distinct()
    .where('username', 'in', usernames)
    .where((is) => is.or([is('expiresAt', 'is', null), is('expiresAt', '>', now)]))
    .execute()
  return rows.map(({ username }) => username)
}

/** Lists tokens after an id, oldest first. */
export function listTokens(db: Db, { after, limit }: PageRequest): Promise<TokenRow[]> {
  return db
    .selectFrom('tokens')
    .selectAll()
    .where('id', '>', after)
    .orderBy('id')
    .limit(limit)
    .execute()
}

export async function updateLastUsed(db: Db, id: string, now: number): Promise<void> {
  const row = await db
    .updateTable('tokens')
    .set({ lastUsedAt: now })
    .where('id', '=', id)
    .returning('username')
    .executeTakeFirst()
  if (row) await updateLastSeen(db, row.username, now)
}

export async function deleteToken(db: Db, id: string): Promise<boolean> {
  const row = await db.deleteFrom('tokens').where('id', '=', id).returning('id').executeTakeFirst()
  return row !== undefined
}

/** Deletes the tokens of a user, or those that end with a login, and returns their ids. */
export async function deleteTokensOf(
  tx: Db,
  holder: { username: string } | { loginId: string },
): Promise<string[]> {
  const [[column, value] = ['username', '']] = Object.entries(holder)
  const query = tx
    .deleteFrom('tokens')
    .where(column === 'loginId' ? 'loginId' : 'username', '=', value)
    .returning('id')
  const ids: string[] = []
  // On PostgreSQL, the query does not delete tokens of the delegations for whose locks it waits.
  for (;;) {
    const rows = await query.execute()
    if (rows.length === 0) return ids
    ids.push(...rows.map(({ id }) => id))
  }
}

/** Finds the token that the sessions of a login have: the only one without a string. */
export function findLoginToken(tx: Db, loginId: string): Promise<TokenRow | undefined> {
  return tx
    .selectFrom('tokens')
    .selectAll()
    .where('loginId', '=', loginId)
    .where('delegatedFrom', 'is', null)
    .where('tokenHash', 'like', 'login %')
    .executeTakeFirst()
}

/** Lists the unexpired tokens that end with a login, without that of its sessions, after an id, oldest first. */
export function listTokensOfLogin(
  db: Db,
  loginId: string,
  { after, limit, now }: PageRequest & { now: number },
): Promise<TokenRow[]> {
  return db
    .selectFrom('tokens')
    .selectAll()
    .where('loginId', '=', loginId)
    .where('tokenHash', 'not like', 'login %')
    .where('id', '>', after)
    .where((is) => is.or([is('expiresAt', 'is', null), is('expiresAt', '>', now)]))
    .orderBy('id')
    .limit(limit)
    .execute()
}

/** Deletes the expired tokens that ended with a login, without that of its sessions. */
export async function deleteExpiredOfLogin(db: Db, loginId: string, now: number): Promise<void> {
  await db
    .deleteFrom('tokens')
    .where('loginId', '=', loginId)
    .where('tokenHash', 'not like', 'login %')
    .where('expiresAt', '<=', now)
    .execute()
}

/** The number of tokens that end with a login, without that of its sessions and those that were delegated. */
export async function countTokensOfLogin(db: Db, loginId: string): Promise<number> {
  const { count } = await db
    .selectFrom('tokens')
    .select((is) => is.fn.countAll<number>().as('count'))
    .where('loginId', '=', loginId)
    .where('tokenHash', 'not like', 'login %')
    .where('delegatedFrom', 'is', null)
    .executeTakeFirstOrThrow()
  return Number(count)
}

/** Whether a token ends with a login, and is not that of its sessions. */
export async function isTokenOfLogin(db: Db, loginId: string, id: string): Promise<boolean> {
  const row = await db
    .selectFrom('tokens')
    .select('id')
    .where('loginId', '=', loginId)
    .where('tokenHash', 'not like', 'login %')
    .where('id', '=', id)
    .executeTakeFirst()
  return row !== undefined
}

/** Replaces the permissions of a token, and when it expires. */
export async function updateToken(
  tx: Db,
  id: string,
  changed: Pick<TokenRow, 'permissions' | 'expiresAt'>,
): Promise<void> {
  await tx.updateTable('tokens').set(changed).where('id', '=', id).execute()
}

/** Replaces the permissions of all admin tokens that end with a login. */
export async function demoteTokensOf(tx: Db, loginId: string, permissions: string): Promise<void> {
  await tx
    .updateTable('tokens')
    .set({ permissions })
    .where('loginId', '=', loginId)
    .where('permissions', 'like', '%admin%')
    .execute()
}

/** Deletes the tokens that were delegated from some tokens, and returns their ids. */
export async function deleteDelegatedFrom(db: Db, ids: string[]): Promise<string[]> {
  const rows = await db
    .deleteFrom('tokens')
    .where('delegatedFrom', 'in', ids)
    .returning('id')
    .execute()
  return rows.map(({ id }) => id)
}

/**
 * Deletes the expired tokens of a delegation chain, named by its first token. No unexpired token depends on them, since
 * none outlives the token that it was delegated from.
 */
export async function deleteExpiredDelegated(db: Db, root: string, now: number): Promise<void> {
  await db
    .deleteFrom('tokens')
    .where('delegationRoot', '=', root)
    .where('expiresAt', '<=', now)
    .execute()
}

export async function countDelegated(db: Db, root: string): Promise<number> {
  const { count } = await db
    .selectFrom('tokens')
    .select((is) => is.fn.countAll<number>().as('count'))
    .where('delegationRoot', '=', root)
    .executeTakeFirstOrThrow()
  return count
}

const descendantsOf = (db: Db, id: string) =>
  db
    .withRecursive('descendants', (tokens) =>
      tokens
        .selectFrom('tokens')
        .selectAll()
        .where('delegatedFrom', '=', id)
        .unionAll((next) =>
          next
            .selectFrom('tokens')
            .innerJoin('descendants', 'descendants.id', 'tokens.delegatedFrom')
            .selectAll('tokens'),
        ),
    )
    .selectFrom('descendants')

/** Lists the unexpired tokens that were delegated from a token, directly or not, after an id, oldest first. */
export function listDelegated(
  db: Db,
  from: string,
  { after, limit, now }: PageRequest & { now: number },
): Promise<TokenRow[]> {
  return descendantsOf(db, from)
    .selectAll()
    .where('id', '>', after)
    .where((is) => is.or([is('expiresAt', 'is', null), is('expiresAt', '>', now)]))
    .orderBy('id')
    .limit(limit)
    .execute()
}

/** Whether a token was delegated from another one, directly or not. */
export async function findDelegated(db: Db, from: string, id: string): Promise<boolean> {
  const row = await descendantsOf(db, from).select('id').where('id', '=', id).executeTakeFirst()
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
