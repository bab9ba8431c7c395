import { prepared } from '#database/prepared.ts'
import { hasRowLocks } from '#database/row-locks.ts'
import type { ChangeRow, ChangeVersionRow, Db } from '#database/schema.ts'

type Id = Pick<ChangeRow, 'repositoryId' | 'number'>

/** Reads a change; undefined when there is none. */
export function findChange(db: Db, id: Id): Promise<ChangeRow | undefined> {
  return byId(db, id).executeTakeFirst()
}

/** The same, and locks it until the end of the transaction. */
export function lockChange(tx: Db, id: Id): Promise<ChangeRow | undefined> {
  return byId(tx, id)
    .$if(hasRowLocks(tx), (rows) => rows.forUpdate())
    .executeTakeFirst()
}

function byId(db: Db, { repositoryId, number }: Id) {
  return db
    .selectFrom('changes')
    .selectAll()
    .where('repositoryId', '=', repositoryId)
    .where('number', '=', number)
}

/** The open changes of a user for a branch, newest first. */
export function listOwnOpen(
  db: Db,
  { repositoryId, target, username }: Pick<ChangeRow, 'repositoryId' | 'target' | 'username'>,
): Promise<ChangeRow[]> {
  return db
    .selectFrom('changes')
    .selectAll()
    .where('repositoryId', '=', repositoryId)
    .where('target', '=', target)
    .where('username', '=', username)
    .where('state', '=', 'open')
    .orderBy('number', 'desc')
    .execute()
}

// After each push.
const following = prepared((db, { repositoryId }: { repositoryId: string }) =>
  db
    .selectFrom('changes')
    .selectAll()
    .where('repositoryId', '=', repositoryId)
    .where('state', '=', 'open')
    .where('source', '<>', '')
    .orderBy('number')
    .limit(100),
)

/** The open changes that follow branches, the oldest 100. */
export function listFollowing(db: Db, repositoryId: string): Promise<ChangeRow[]> {
  return following(db, { repositoryId })
}

export type ChangeFilter = {
  state?: ChangeRow['state'] | undefined
  target?: string | undefined
  source?: string | undefined
  username?: string | undefined
}

/** Lists changes of a repository before a number, newest first. */
export function listChanges(
  db: Db,
  repositoryId: string,
  {
    state,
    target,
    source,
    username,
    before,
    limit,
  }: ChangeFilter & { before?: number | undefined; limit: number },
): Promise<ChangeRow[]> {
  return db
    .selectFrom('changes')
    .selectAll()
    .where('repositoryId', '=', repositoryId)
    .$if(state !== undefined, (rows) => rows.where('state', '=', state ?? 'open'))
    .$if(target !== undefined, (rows) => rows.where('target', '=', target ?? ''))
    .$if(source !== undefined, (rows) => rows.where('source', '=', source ?? ''))
    .$if(username !== undefined, (rows) => rows.where('username', '=', username ?? ''))
    .$if(before !== undefined, (rows) => rows.where('number', '<', before ?? 0))
    .orderBy('number', 'desc')
    .limit(limit)
    .execute()
}

/** The highest number of a change of a repository; 0 without any. */
export async function lastNumber(db: Db, repositoryId: string): Promise<number> {
  const row = await db
    .selectFrom('changes')
    .select('number')
    .where('repositoryId', '=', repositoryId)
    .orderBy('number', 'desc')
    .limit(1)
    .executeTakeFirst()
  return row?.number ?? 0
}

export async function countOpen(
  db: Db,
  { repositoryId, username }: { repositoryId: string; username: string },
): Promise<number> {
  const { count } = await db
    .selectFrom('changes')
    .select((is) => is.fn.countAll<number>().as('count'))
    .where('repositoryId', '=', repositoryId)
    .where('username', '=', username)
    .where('state', '=', 'open')
    .executeTakeFirstOrThrow()
  return Number(count)
}

export async function insertChange(tx: Db, row: ChangeRow): Promise<void> {
  await tx.insertInto('changes').values(row).execute()
}

export async function updateChange(
  tx: Db,
  { repositoryId, number }: Id,
  set: Partial<ChangeRow>,
): Promise<void> {
  await tx
    .updateTable('changes')
    .set(set)
    .where('repositoryId', '=', repositoryId)
    .where('number', '=', number)
    .execute()
}

export async function insertVersion(tx: Db, row: ChangeVersionRow): Promise<void> {
  await tx.insertInto('changeVersions').values(row).execute()
}

/** The versions of a change, oldest first. */
export function listChangeVersions(
  db: Db,
  { repositoryId, number }: Id,
): Promise<ChangeVersionRow[]> {
  return db
    .selectFrom('changeVersions')
    .selectAll()
    .where('repositoryId', '=', repositoryId)
    .where('number', '=', number)
    .orderBy('version')
    .execute()
}
