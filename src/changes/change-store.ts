import { sql } from 'kysely'
import { prepared } from '#database/prepared.ts'
import { hasRowLocks } from '#database/row-locks.ts'
import type { ChangeRow, ChangeVersionRow, Db } from '#database/schema.ts'
import { writableBy } from '#repositories/role-store.ts'

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
  /** Only open ones that wait for a user. */
  waitingFor?: Waiter | undefined
}

/** A user for whom changes wait: its own, and if it may push, those that lack its verdict on their last version. */
type Waiter = { username: string; mayPush: boolean }

/** The columns of a change in lists: descriptions may be long. */
export type ListedChangeRow = Omit<ChangeRow, 'description' | 'queueNote'>

const listedColumns = [
  ...(['repositoryId', 'number', 'target', 'source', 'topic', 'title', 'state'] as const),
  ...(['username', 'version', 'commitId', 'createdAt', 'updatedAt'] as const),
  ...(['closedAt', 'closedBy', 'landedId', 'pushId'] as const),
]

// Partial indexes are only used where the state is part of the statement.
const isOpen = sql<boolean>`state = 'open'`

const lacksVerdictOf = (username: string) => sql<boolean>`not exists (
  select 1 from change_verdicts as given where given.repository_id = changes.repository_id
    and given.number = changes.number and given.username = ${username} and given.version = changes.version
)`

/** The open changes that wait for a user in all repositories, the last updated first. */
export async function listWaiting(
  db: Db,
  username: string,
  limit: number,
): Promise<ListedChangeRow[]> {
  const open = () =>
    db
      .selectFrom('changes')
      .select(listedColumns)
      .where(isOpen)
      .orderBy('updatedAt', 'desc')
      .limit(limit)
  const own = await open().where('username', '=', username).execute()
  const others = await open()
    .where('username', '<>', username)
    .where('repositoryId', 'in', writableBy(username))
    .where(lacksVerdictOf(username))
    .execute()
  return [...own, ...others].sort((one, other) => other.updatedAt - one.updatedAt).slice(0, limit)
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
    waitingFor,
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
    .$if(waitingFor !== undefined, (rows) => rows.where(isOpen).where(waitsFor(waitingFor)))
    .$if(before !== undefined, (rows) => rows.where('number', '<', before ?? 0))
    .orderBy('number', 'desc')
    .limit(limit)
    .execute()
}

function waitsFor({ username, mayPush }: Waiter = { username: '', mayPush: false }) {
  const isOwn = sql<boolean>`username = ${username}`
  return mayPush ? sql<boolean>`(${isOwn} or ${lacksVerdictOf(username)})` : isOwn
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

/** Reads changes of a repository by their numbers. */
export async function listChangesByNumber(
  db: Db,
  repositoryId: string,
  numbers: readonly number[],
): Promise<ChangeRow[]> {
  if (numbers.length === 0) return []
  return db
    .selectFrom('changes')
    .selectAll()
    .where('repositoryId', '=', repositoryId)
    .where('number', 'in', numbers)
    .execute()
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
