import type { ChangeCommentRow, ChangeRow, ChangeVerdictRow, Db } from '#database/schema.ts'

type OfChange = Pick<ChangeRow, 'repositoryId' | 'number'>

/** Which comments to list: those on a file, or on any file. */
export type CommentFilter = { path?: string | undefined; onFiles?: boolean | undefined }

/** Lists comments of a change after an id, oldest first. */
export function listComments(
  db: Db,
  change: OfChange,
  { after, limit, path, onFiles }: CommentFilter & { after: string; limit: number },
): Promise<ChangeCommentRow[]> {
  return commentsOn(db, change)
    .selectAll()
    .$if(path !== undefined, (rows) => rows.where('path', '=', path ?? ''))
    .$if(onFiles === true, (rows) => rows.where('path', '<>', ''))
    .where('id', '>', after)
    .orderBy('id')
    .limit(limit)
    .execute()
}

export function findComment(
  db: Db,
  change: OfChange,
  id: string,
): Promise<ChangeCommentRow | undefined> {
  return commentsOn(db, change).selectAll().where('id', '=', id).executeTakeFirst()
}

/** Reads who has resolved threads, by the ids of these. */
export async function findResolved(
  db: Db,
  threadIds: readonly string[],
): Promise<Map<string, string | null>> {
  if (threadIds.length === 0) return new Map()
  const rows = await db
    .selectFrom('changeComments')
    .select(['id', 'resolvedBy'])
    .where('id', 'in', threadIds)
    .execute()
  return new Map(rows.map(({ id, resolvedBy }) => [id, resolvedBy]))
}

/** The number of comments of a change, and of its threads that are not resolved. */
export async function countComments(
  db: Db,
  change: OfChange,
): Promise<{ comments: number; unresolved: number }> {
  const row = await commentsOn(db, change)
    .select((is) => [
      is.fn.countAll<number>().as('comments'),
      is.fn
        .countAll<number>()
        .filterWhere((of) => of('id', '=', of.ref('threadId')).and('resolvedBy', 'is', null))
        .as('unresolved'),
    ])
    .executeTakeFirstOrThrow()
  return { comments: Number(row.comments), unresolved: Number(row.unresolved) }
}

function commentsOn(db: Db, { repositoryId, number }: OfChange) {
  return db
    .selectFrom('changeComments')
    .where('repositoryId', '=', repositoryId)
    .where('number', '=', number)
}

export async function insertComment(tx: Db, row: ChangeCommentRow): Promise<void> {
  await tx.insertInto('changeComments').values(row).execute()
}

export async function updateComment(
  tx: Db,
  id: string,
  set: Partial<Pick<ChangeCommentRow, 'text' | 'editedAt' | 'resolvedBy'>>,
): Promise<void> {
  await tx.updateTable('changeComments').set(set).where('id', '=', id).execute()
}

/** Saves the verdict of a user, in place of the former one. */
export async function saveVerdict(tx: Db, row: ChangeVerdictRow): Promise<void> {
  const { version, verdict, createdAt } = row
  await tx
    .insertInto('changeVerdicts')
    .values(row)
    .onConflict((conflict) =>
      conflict
        .columns(['repositoryId', 'number', 'username'])
        .doUpdateSet({ version, verdict, createdAt }),
    )
    .execute()
}

/** Deletes the verdict of a user; false when there is none. */
export async function deleteVerdict(
  tx: Db,
  { repositoryId, number }: OfChange,
  username: string,
): Promise<boolean> {
  const row = await tx
    .deleteFrom('changeVerdicts')
    .where('repositoryId', '=', repositoryId)
    .where('number', '=', number)
    .where('username', '=', username)
    .returning('username')
    .executeTakeFirst()
  return row !== undefined
}

/** The verdicts on a change, oldest first. */
export function listVerdicts(
  db: Db,
  { repositoryId, number }: OfChange,
): Promise<ChangeVerdictRow[]> {
  return db
    .selectFrom('changeVerdicts')
    .selectAll()
    .where('repositoryId', '=', repositoryId)
    .where('number', '=', number)
    .orderBy('createdAt')
    .orderBy('username')
    .execute()
}
