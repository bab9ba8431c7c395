import { sql } from 'kysely'
import { newId } from '#base/ids.ts'
import type { PageRequest } from '#base/list-all.ts'
import { hasRowLocks } from '#database/row-locks.ts'
import type { Db, UserRow } from '#database/schema.ts'

/**
 * Adds a user who gets its first token or key, unless it exists. Until the transaction ends, it can be neither disabled
 * nor deleted.
 */
export async function addUser(tx: Db, username: string, now: number): Promise<void> {
  // Not a user who is deleted between the two statements.
  while (!(await insertUser(tx, newUser(username, now))) && !(await shareUser(tx, username)));
}

/** Prevents changes of a user until the transaction ends. Others may do the same, so that none waits for another one. */
function shareUser(tx: Db, username: string): Promise<UserRow | undefined> {
  return tx
    .selectFrom('users')
    .selectAll()
    .where('username', '=', username)
    .$if(hasRowLocks(tx), (rows) => rows.forShare())
    .executeTakeFirst()
}

export function newUser(username: string, now: number): UserRow {
  return {
    ...{ id: newId(now), username, displayName: '', email: '', source: 'token' },
    ...{ createdAt: now, lastSeenAt: null, disabledAt: null, loginEndedAt: null },
  }
}

/** Adds a user; false if there is one with this username. */
export async function insertUser(tx: Db, user: UserRow): Promise<boolean> {
  const row = await tx
    .insertInto('users')
    .values(user)
    .onConflict((conflict) => conflict.column('username').doNothing())
    .returning('id')
    .executeTakeFirst()
  return row !== undefined
}

/** How many users have a username, without regard to case. */
export async function countUsersLike(tx: Db, username: string): Promise<number> {
  const { count } = await tx
    .selectFrom('users')
    .select((is) => is.fn.countAll<number>().as('count'))
    .where(sql<string>`lower(username)`, '=', username.toLowerCase())
    .executeTakeFirstOrThrow()
  return Number(count)
}

/** Whether the user of a token, key or trust rule is not disabled, nor gone from the identity provider, as a condition. */
export function isEnabled(column: 'tokens.username' | 'sshKeys.username' | 'trustRules.username') {
  return sql<boolean>`not exists (
    select 1 from users where users.username = ${sql.ref(column)}
      and (users.disabled_at is not null or users.login_ended_at is not null)
  )`
}

export function findUser(db: Db, username: string): Promise<UserRow | undefined> {
  return db.selectFrom('users').selectAll().where('username', '=', username).executeTakeFirst()
}

/** Finds a user, and makes others who change it, or give it a token or key, wait until the transaction ends. */
export function lockUser(tx: Db, username: string): Promise<UserRow | undefined> {
  return tx
    .selectFrom('users')
    .selectAll()
    .where('username', '=', username)
    .$if(hasRowLocks(tx), (rows) => rows.forNoKeyUpdate())
    .executeTakeFirst()
}

/** Whether a user exists, and is neither disabled nor gone from the identity provider. */
export function isUserEnabled(
  user: Pick<UserRow, 'disabledAt' | 'loginEndedAt'> | undefined,
): boolean {
  return user !== undefined && user.disabledAt === null && user.loginEndedAt === null
}

/** Whether a user exists and is enabled. Until the transaction ends, it can be neither disabled nor deleted. */
export async function lockEnabledUser(tx: Db, username: string): Promise<boolean> {
  return isUserEnabled(await shareUser(tx, username))
}

/** Lists users after an id, oldest first. */
export function listUsers(db: Db, { after, limit }: PageRequest): Promise<UserRow[]> {
  return db
    .selectFrom('users')
    .selectAll()
    .where('id', '>', after)
    .orderBy('id')
    .limit(limit)
    .execute()
}

/** Notes that a token or key of a user was used. */
export async function updateLastSeen(db: Db, username: string, now: number): Promise<void> {
  const query = db.updateTable('users').set({ lastSeenAt: now })
  await query.where('username', '=', username).execute()
}

/** Changes a user and returns it; undefined if there is none. */
export function updateUser(
  db: Db,
  username: string,
  changed: Partial<Omit<UserRow, 'id' | 'createdAt'>>,
): Promise<UserRow | undefined> {
  return db
    .updateTable('users')
    .set(changed)
    .where('username', '=', username)
    .returningAll()
    .executeTakeFirst()
}

/** Deletes a user; returns whether it existed. */
export async function deleteUser(tx: Db, username: string): Promise<boolean> {
  const query = tx.deleteFrom('users').where('username', '=', username)
  return (await query.executeTakeFirstOrThrow()).numDeletedRows > 0n
}
