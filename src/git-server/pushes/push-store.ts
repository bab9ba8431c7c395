import { sql } from 'kysely'
import { prepared } from '#database/prepared.ts'
import { hasRowLocks } from '#database/row-locks.ts'
import type { Db, NewPush, PushRow } from '#database/schema.ts'
import type { PushedUpdate } from '#git/refs/refs.ts'
import { repositoryDeleted } from '#repositories/repository-errors.ts'
import { presentAmong } from '#repositories/repository-store.ts'

/** A finished push. */
export type FinishedPush = Omit<PushRow, 'updates' | 'finishedAt'> & {
  updates: PushedUpdate[]
  finishedAt: number
}

/**
 * Records a push, before the deletion of its repository or not at all: a later one would not be explained by its refs.
 * Throws `repository_not_found`.
 */
export async function insertPush(db: Db, push: NewPush): Promise<void> {
  // The keys of an object are typed as strings.
  const columns = Object.keys(push) as (keyof NewPush)[]
  const row = await db
    .insertInto('pushes')
    .columns(columns)
    .expression((of) =>
      of
        .selectFrom('repositories')
        .select(columns.map((column) => sql.val(push[column]).as(column)))
        .where('id', '=', push.repositoryId)
        .where('deletedAt', 'is', null)
        .$if(hasRowLocks(db), (rows) => rows.forKeyShare()),
    )
    .returning('id')
    .executeTakeFirst()
  if (!row) throw repositoryDeleted()
}

/** The value of the column with the findings of the leak guard that a push contains. */
export function toAllowedColumn(allowed: readonly unknown[]): string | null {
  return allowed.length > 0 ? JSON.stringify(allowed) : null
}

type Outcome = { updates: PushedUpdate[]; keptUntil: number | null; now: number }

/** Marks a push finished; false when it was finished before or its repository was deleted. */
export async function markFinished(db: Db, id: string, outcome: Outcome): Promise<boolean> {
  const { updates, keptUntil, now } = outcome
  const row = await db
    .updateTable('pushes')
    .set({ finishedAt: now, updates: JSON.stringify(updates), keptUntil })
    .where('id', '=', id)
    .where('finishedAt', 'is', null)
    .returning('id')
    .executeTakeFirst()
  return row !== undefined
}

/** The old and the new default branch. */
export type DefaultBranchChange = { former: string; branch: string }

/** Records that a push changes the default branch. */
export async function recordDefaultBranch(
  db: Db,
  id: string,
  { former, branch }: DefaultBranchChange,
): Promise<void> {
  await db
    .updateTable('pushes')
    .set({ formerDefaultBranch: former, defaultBranch: branch })
    .where('id', '=', id)
    .where('finishedAt', 'is', null)
    .execute()
}

/** Deletes a push that has changed nothing; false when it was finished or deleted before. */
export async function deleteUnfinished(db: Db, id: string): Promise<boolean> {
  const row = await db
    .deleteFrom('pushes')
    .where('id', '=', id)
    .where('finishedAt', 'is', null)
    .returning('id')
    .executeTakeFirst()
  return row !== undefined
}

/** The authorized, unfinished pushes of a repository, oldest first. */
export function listUnfinishedPushes(db: Db, repositoryId: string): Promise<PushRow[]> {
  return db
    .selectFrom('pushes')
    .selectAll()
    .where('finishedAt', 'is', null)
    .where('repositoryId', '=', repositoryId)
    .orderBy('id')
    .execute()
}

/** The ids of repositories with authorized, unfinished pushes, except deleted ones. */
export async function listWithUnfinished(db: Db): Promise<string[]> {
  const rows = await db
    .selectFrom('pushes')
    .select('repositoryId')
    .distinct()
    .where('finishedAt', 'is', null)
    .execute()
  return withoutDeleted(db, rows)
}

/**
 * Other pushes of a repository that may have built on this one: unfinished, finished since or authorized later. Not
 * those that had finished when this one was authorized, even in the same millisecond.
 */
export function listSince(db: Db, { id, repositoryId, judgedAt }: PushRow): Promise<PushRow[]> {
  // Each part of the union uses an index: a repository may have many pushes.
  const ids = db
    .selectFrom('pushes')
    .select('id')
    .where('finishedAt', '>', judgedAt)
    .union(db.selectFrom('pushes').select('id').where('finishedAt', 'is', null))
    .union(
      db
        .selectFrom('pushes')
        .select('id')
        .where('repositoryId', '=', repositoryId)
        .where('id', '>', id),
    )
  return db
    .selectFrom('pushes')
    .selectAll()
    .where('repositoryId', '=', repositoryId)
    .where('id', 'in', ids)
    .where('id', '<>', id)
    .execute()
}

/** A page of a repository's journal, optionally of one ref. */
type Page = { before: string; limit: number; ref?: string | undefined }

/** The pushes of a repository before an id, newest first, with the lengths of their updates as JSON. */
export function listPushSizes(
  db: Db,
  repositoryId: string,
  { before, limit, ref }: Page,
): Promise<{ id: string; size: number }[]> {
  let query = db
    .selectFrom('pushes')
    .select(['id', sql<number>`length(updates)`.as('size')])
    .where('repositoryId', '=', repositoryId)
    .where('finishedAt', 'is not', null)
    .where('via', '<>', '')
  if (before !== '') query = query.where('id', '<', before)
  if (ref !== undefined) {
    // A case-sensitive substring search that works in both databases.
    const part = `"ref":${JSON.stringify(ref)}`
    query = query.where(sql<boolean>`replace(updates, ${part}, '') <> updates`)
  }
  return query.orderBy('id', 'desc').limit(limit).execute()
}

/** Finished pushes of a repository by their ids, newest first. */
export async function findPushes(
  db: Db,
  repositoryId: string,
  ids: string[],
): Promise<FinishedPush[]> {
  const rows = await db
    .selectFrom('pushes')
    .selectAll()
    .where('repositoryId', '=', repositoryId)
    .where('id', 'in', ids)
    .where('finishedAt', 'is not', null)
    .where('via', '<>', '')
    .orderBy('id', 'desc')
    .execute()
  return rows.map(toFinished)
}

const lastId = prepared((db, by: { repositoryId: string }) =>
  db
    .selectFrom('pushes')
    .select('id')
    .where('repositoryId', '=', by.repositoryId)
    .orderBy('id', 'desc')
    .limit(1),
)

/** The id of the newest push of a repository; empty when there is none. */
export async function findLastPushId(db: Db, repositoryId: string): Promise<string> {
  const [row] = await lastId(db, { repositoryId })
  return row?.id ?? ''
}

/** Whether a push of a repository is authorized and not finished. */
export async function isUnfinished(db: Db, repositoryId: string, id: string): Promise<boolean> {
  const row = await db
    .selectFrom('pushes')
    .select('id')
    .where('id', '=', id)
    .where('repositoryId', '=', repositoryId)
    .where('finishedAt', 'is', null)
    .executeTakeFirst()
  return row !== undefined
}

/** The ids of repositories with a push whose retention period is over, except deleted ones. */
export async function listWithExpired(db: Db, now: number): Promise<string[]> {
  const rows = await db
    .selectFrom('pushes')
    .select('repositoryId')
    .distinct()
    .where('keptUntil', '<=', now)
    .execute()
  return withoutDeleted(db, rows)
}

// Their directories are elsewhere until they are restored.
async function withoutDeleted(db: Db, rows: { repositoryId: string }[]): Promise<string[]> {
  const ids = rows.map(({ repositoryId }) => repositoryId)
  const present = await presentAmong(db, ids)
  return ids.filter((id) => present.has(id))
}

/** The pushes of a repository that retain commits, or may be about to. */
export async function listKeeping(db: Db, repositoryId: string, now: number): Promise<string[]> {
  const rows = await db
    .selectFrom('pushes')
    .select('id')
    .where('repositoryId', '=', repositoryId)
    .where((is) => is.or([is('finishedAt', 'is', null), is('keptUntil', '>', now)]))
    .execute()
  return rows.map(({ id }) => id)
}

/** Clears the retention of expired pushes, except those whose repository is being deleted. */
export async function clearKept(db: Db, repositoryId: string, now: number): Promise<void> {
  const over = selectUnlocked(db)
    .where('repositoryId', '=', repositoryId)
    .where('keptUntil', '<=', now)
  await db.updateTable('pushes').set({ keptUntil: null }).where('id', 'in', over).execute()
}

/** Deletes up to `limit` pushes that finished before a time and retain nothing; returns how many. */
export async function deleteFinished(db: Db, before: number, limit: number): Promise<number> {
  const old = selectUnlocked(db)
    .where('finishedAt', '<', before)
    .where('keptUntil', 'is', null)
    .limit(limit)
  const { numDeletedRows } = await db
    .deleteFrom('pushes')
    .where('id', 'in', old)
    .executeTakeFirstOrThrow()
  return Number(numDeletedRows)
}

// Skips rows locked by the deletion of their repository, whose lock order is undefined: waiting could deadlock.
function selectUnlocked(db: Db) {
  return db
    .selectFrom('pushes')
    .select('id')
    .$if(hasRowLocks(db), (rows) => rows.forUpdate().skipLocked())
}

function toFinished(row: PushRow): FinishedPush {
  return { ...row, updates: JSON.parse(row.updates), finishedAt: row.finishedAt ?? 0 }
}
