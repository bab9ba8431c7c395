import type { PageRequest } from '#base/list-all.ts'
import { hasRowLocks } from '#database/row-locks.ts'
import type { Db, SshKeyRow } from '#database/schema.ts'
import { addUser, isEnabled, lockEnabledUser, updateLastSeen } from '../user-store.ts'

const ofEnabledUser = isEnabled('sshKeys.username')

/** Whose keys: all, or those of a username. */
type KeyOwner = 'all' | { username: string }

/** Inserts a key; false if it is already registered. */
export async function insertSshKey(db: Db, key: SshKeyRow): Promise<boolean> {
  await addUser(db, key.username, key.createdAt)
  const row = await db
    .insertInto('sshKeys')
    .values(key)
    .onConflict((conflict) => conflict.column('fingerprint').doNothing())
    .returning('id')
    .executeTakeFirst()
  return row !== undefined
}

/** Finds a key, unless its user is disabled. */
export function findSshKey(db: Db, id: string): Promise<SshKeyRow | undefined> {
  return db
    .selectFrom('sshKeys')
    .selectAll()
    .where('id', '=', id)
    .where(ofEnabledUser)
    .executeTakeFirst()
}

/**
 * Whether a key exists whose user is enabled. Until the transaction ends, neither can be deleted, and the user cannot be
 * disabled.
 */
export async function lockSshKey(
  tx: Db,
  { id, username }: Pick<SshKeyRow, 'id' | 'username'>,
  now: number,
): Promise<boolean> {
  // The user first, in the order in which both are deleted.
  if (!(await lockEnabledUser(tx, username))) return false
  const row = await tx
    .selectFrom('sshKeys')
    .select('expiresAt')
    .where('id', '=', id)
    .$if(hasRowLocks(tx), (rows) => rows.forShare())
    .executeTakeFirst()
  return row !== undefined && (row.expiresAt === null || row.expiresAt > now)
}

/** Finds a key by its fingerprint, unless its user is disabled. */
export function findSshKeyByFingerprint(
  db: Db,
  fingerprint: string,
): Promise<SshKeyRow | undefined> {
  return db
    .selectFrom('sshKeys')
    .selectAll()
    .where('fingerprint', '=', fingerprint)
    .where(ofEnabledUser)
    .executeTakeFirst()
}

/** Lists keys after an id, oldest first. */
export function listSshKeys(
  db: Db,
  whose: KeyOwner,
  { after, limit }: PageRequest,
): Promise<SshKeyRow[]> {
  let query = db
    .selectFrom('sshKeys')
    .selectAll()
    .where('id', '>', after)
    .orderBy('id')
    .limit(limit)
  if (whose !== 'all') query = query.where('username', '=', whose.username)
  return query.execute()
}

/** Returns those of `usernames` for which a key exists. */
export async function listUsernames(db: Db, usernames: string[]): Promise<string[]> {
  const rows = await db
    .selectFrom('sshKeys')
    .select('username')
    .distinct()
    .where('username', 'in', usernames)
    .execute()
  return rows.map(({ username }) => username)
}

export async function countSshKeys(db: Db, username: string): Promise<number> {
  const { count } = await db
    .selectFrom('sshKeys')
    .select((select) => select.fn.countAll().as('count'))
    .where('username', '=', username)
    .executeTakeFirstOrThrow()
  return Number(count)
}

export async function updateKeyLastUsed(db: Db, id: string, now: number): Promise<void> {
  const row = await db
    .updateTable('sshKeys')
    .set({ lastUsedAt: now })
    .where('id', '=', id)
    .returning('username')
    .executeTakeFirst()
  if (row) await updateLastSeen(db, row.username, now)
}

/** Deletes and returns the expired keys of a username or with a fingerprint. */
export function deleteExpiredSshKeys(
  db: Db,
  which: { username: string } | { fingerprint: string },
  now: number,
): Promise<Pick<SshKeyRow, 'id' | 'username'>[]> {
  const expired = db.deleteFrom('sshKeys').where('expiresAt', '<=', now)
  const query =
    'username' in which
      ? expired.where('username', '=', which.username)
      : expired.where('fingerprint', '=', which.fingerprint)
  return query.returning(['id', 'username']).execute()
}

/** Deletes the keys of a user, and returns their ids. */
export async function deleteKeysOf(tx: Db, username: string): Promise<string[]> {
  const query = tx.deleteFrom('sshKeys').where('username', '=', username).returning('id')
  return (await query.execute()).map(({ id }) => id)
}

/** Deletes a key of an owner, and returns its username; undefined if there is none. */
export async function deleteSshKey(
  db: Db,
  whose: KeyOwner,
  id: string,
): Promise<string | undefined> {
  let query = db.deleteFrom('sshKeys').where('id', '=', id)
  if (whose !== 'all') query = query.where('username', '=', whose.username)
  const row = await query.returning('username').executeTakeFirst()
  return row?.username
}
