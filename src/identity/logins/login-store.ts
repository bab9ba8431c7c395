import type { NotNull } from 'kysely'
import type { PageRequest } from '#base/list-all.ts'
import { hasRowLocks } from '#database/row-locks.ts'
import type { Db, LoginAttemptRow, LoginRow } from '#database/schema.ts'
import { lockUser } from '../user-store.ts'

/** A person at an identity provider. */
type Identity = Pick<LoginRow, 'issuer' | 'subject'>

const ofPerson = (db: Db, { issuer, subject }: Identity) =>
  db.selectFrom('logins').selectAll().where('issuer', '=', issuer).where('subject', '=', subject)

export function findLogin(db: Db, identity: Identity): Promise<LoginRow | undefined> {
  return ofPerson(db, identity).executeTakeFirst()
}

/** Finds a login, and makes other changes of it and of its user wait until the transaction ends. */
export async function lockLogin(tx: Db, identity: Identity): Promise<LoginRow | undefined> {
  const login = await findLogin(tx, identity)
  if (!login) return undefined
  // The user first, as in all changes of users.
  await lockUser(tx, login.username)
  return ofPerson(tx, identity)
    .$if(hasRowLocks(tx), (row) => row.forNoKeyUpdate())
    .executeTakeFirst()
}

/** Inserts a login; false if the person has one. */
export async function insertLogin(tx: Db, login: LoginRow): Promise<boolean> {
  const row = await tx
    .insertInto('logins')
    .values(login)
    .onConflict((conflict) => conflict.columns(['issuer', 'subject']).doNothing())
    .returning('id')
    .executeTakeFirst()
  return row !== undefined
}

export async function updateLogin(
  db: Db,
  id: string,
  changed: Partial<Omit<LoginRow, 'id' | 'username' | 'issuer' | 'subject' | 'createdAt'>>,
): Promise<void> {
  await db.updateTable('logins').set(changed).where('id', '=', id).execute()
}

/** Lists the logins of some users. */
export function listLoginsOf(db: Db, usernames: readonly string[]): Promise<LoginRow[]> {
  return db.selectFrom('logins').selectAll().where('username', 'in', usernames).execute()
}

/** Deletes a login, with the tokens that end with it. */
export async function deleteLogin(tx: Db, id: string): Promise<void> {
  await tx.deleteFrom('logins').where('id', '=', id).execute()
}

/** Deletes what the identity provider has said of a user who is being deleted. */
export async function deleteLoginsOf(tx: Db, username: string): Promise<void> {
  await tx.deleteFrom('logins').where('username', '=', username).execute()
  await tx.deleteFrom('userGroups').where('username', '=', username).execute()
}

/** Lists logins of an issuer whose groups are to be read, the most overdue first. */
export function listDueLogins(
  db: Db,
  { issuer, now, limit }: { issuer: string; now: number; limit: number },
): Promise<LoginRow[]> {
  return db
    .selectFrom('logins')
    .selectAll()
    .where('issuer', '=', issuer)
    .where('nextCheckAt', '<=', now)
    .orderBy('nextCheckAt')
    .limit(limit)
    .execute()
}

/** The part of a login that shows whether it has ended, or its check was taken over, since it was read. */
export type LoginCheck = Pick<LoginRow, 'id' | 'issuer' | 'subject' | 'nextCheckAt'>

/**
 * Changes when a login is checked next, and what with, unless that has changed meanwhile: it was checked by another node,
 * the login ended, or the person logged in again. Returns whether it did.
 */
export async function continueCheck(
  db: Db,
  { id, nextCheckAt }: LoginCheck,
  next: Partial<Pick<LoginRow, 'nextCheckAt' | 'failingSince' | 'refreshToken'>>,
): Promise<boolean> {
  const query = db
    .updateTable('logins')
    .set(next)
    .where('id', '=', id)
    .where('nextCheckAt', '=', nextCheckAt)
  return (await query.executeTakeFirstOrThrow()).numUpdatedRows > 0n
}

/** Lists logins of people whom no one vouches for now, since they are of another issuer than that of the settings. */
export function listForeignLogins(
  db: Db,
  { issuer = '', limit }: { issuer: string | undefined; limit: number },
): Promise<LoginRow[]> {
  return db
    .selectFrom('logins')
    .innerJoin('users', 'users.username', 'logins.username')
    .selectAll('logins')
    .where('logins.issuer', '!=', issuer)
    .where('logins.lastLoginAt', 'is not', null)
    .where('users.loginEndedAt', 'is', null)
    .limit(limit)
    .execute()
}

/** Lists sealed refresh tokens after the id of a login. */
export async function listRefreshTokens(
  db: Db,
  { after, limit }: PageRequest,
): Promise<{ id: string; refreshToken: Uint8Array }[]> {
  return db
    .selectFrom('logins')
    .select(['id', 'refreshToken'])
    .where('refreshToken', 'is not', null)
    .where('id', '>', after)
    .orderBy('id')
    .limit(limit)
    .$narrowType<{ refreshToken: NotNull }>()
    .execute()
}

/** Replaces a sealed refresh token, if it is unchanged since it was read. */
export async function replaceRefreshToken(
  db: Db,
  { id, former, sealedValue }: { id: string; former: Uint8Array; sealedValue: Uint8Array },
): Promise<boolean> {
  const query = db
    .updateTable('logins')
    .set({ refreshToken: sealedValue })
    .where('id', '=', id)
    .where('refreshToken', '=', former)
  return (await query.executeTakeFirstOrThrow()).numUpdatedRows > 0n
}

/** Lists the groups of some users, by their names. */
export function listGroupsOf(
  db: Db,
  usernames: readonly string[],
): Promise<{ username: string; name: string }[]> {
  return db
    .selectFrom('userGroups')
    .select(['username', 'name'])
    .where('username', 'in', usernames)
    .orderBy('name')
    .execute()
}

/** The groups that a user has got and lost. */
export type GroupChange = { addedGroups: string[]; removedGroups: string[] }

/** Replaces the groups of a user. */
export async function replaceGroups(
  tx: Db,
  username: string,
  names: readonly string[],
): Promise<GroupChange> {
  const former = (await listGroupsOf(tx, [username])).map(({ name }) => name)
  const gone = former.filter((name) => !names.includes(name))
  const known = new Set(former)
  const added = names.filter((name) => !known.has(name))
  const change = { addedGroups: added, removedGroups: gone }
  if (gone.length > 0) {
    await tx
      .deleteFrom('userGroups')
      .where('username', '=', username)
      .where('name', 'in', gone)
      .execute()
  }
  if (added.length === 0) return change
  await tx
    .insertInto('userGroups')
    .values(added.map((name) => ({ username, name })))
    .onConflict((conflict) => conflict.columns(['username', 'name']).doNothing())
    .execute()
  return change
}

export async function insertLoginAttempt(db: Db, attempt: LoginAttemptRow): Promise<void> {
  await db.insertInto('loginAttempts').values(attempt).execute()
}

/** Deletes an attempt and returns it; undefined if another request was first. */
export function takeAttempt(db: Db, stateHash: string): Promise<LoginAttemptRow | undefined> {
  return db
    .deleteFrom('loginAttempts')
    .where('stateHash', '=', stateHash)
    .returningAll()
    .executeTakeFirst()
}

export async function deleteOldAttempts(db: Db, now: number): Promise<void> {
  await db.deleteFrom('loginAttempts').where('expiresAt', '<=', now).execute()
}
