import { hasRowLocks } from '#database/row-locks.ts'
import type { Db, LoginAttemptRow, LoginRow } from '#database/schema.ts'

/** A person at an identity provider. */
type Identity = Pick<LoginRow, 'issuer' | 'subject'>

const ofPerson = (db: Db, { issuer, subject }: Identity) =>
  db.selectFrom('logins').selectAll().where('issuer', '=', issuer).where('subject', '=', subject)

export function findLogin(db: Db, identity: Identity): Promise<LoginRow | undefined> {
  return ofPerson(db, identity).executeTakeFirst()
}

/**
 * Finds a login, and makes other changes of it wait until the transaction ends; new tokens of the login do not, since they
 * have locked the user, which is changed next.
 */
export function lockLogin(tx: Db, identity: Identity): Promise<LoginRow | undefined> {
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

/** Lists the logins of a user. */
export function listLoginsOf(db: Db, username: string): Promise<LoginRow[]> {
  return db.selectFrom('logins').selectAll().where('username', '=', username).execute()
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

/** Leases a due login to one node, until it is due again; false if another node was first. */
export async function leaseLogin(
  db: Db,
  { id, nextCheckAt }: LoginRow,
  until: number,
): Promise<boolean> {
  const query = db
    .updateTable('logins')
    .set({ nextCheckAt: until })
    .where('id', '=', id)
    .where('nextCheckAt', '=', nextCheckAt)
  return (await query.executeTakeFirstOrThrow()).numUpdatedRows > 0n
}

/** Replaces the groups of a user. */
export async function replaceGroups(
  tx: Db,
  username: string,
  names: readonly string[],
): Promise<void> {
  const former = await tx
    .selectFrom('userGroups')
    .select('name')
    .where('username', '=', username)
    .execute()
  const gone = former.filter(({ name }) => !names.includes(name)).map(({ name }) => name)
  const known = new Set(former.map(({ name }) => name))
  const added = names.filter((name) => !known.has(name))
  if (gone.length > 0) {
    await tx
      .deleteFrom('userGroups')
      .where('username', '=', username)
      .where('name', 'in', gone)
      .execute()
  }
  if (added.length === 0) return
  await tx
    .insertInto('userGroups')
    .values(added.map((name) => ({ username, name })))
    .onConflict((conflict) => conflict.columns(['username', 'name']).doNothing())
    .execute()
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
