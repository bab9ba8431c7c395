import type { Db, PushRow } from '../database/schema.ts'

export async function insertPush(db: Db, push: PushRow): Promise<void> {
  await db.insertInto('pushes').values(push).execute()
}

/** Marks a push finished; false when it was finished before, or is gone with its repository. */
export async function markFinished(db: Db, id: string, now: number): Promise<boolean> {
  const row = await db
    .updateTable('pushes')
    .set({ finishedAt: now })
    .where('id', '=', id)
    .where('finishedAt', 'is', null)
    .returning('id')
    .executeTakeFirst()
  return row !== undefined
}

/** Pushes that were judged and not finished, oldest first. */
export function listUnfinished(db: Db, repositoryId?: string): Promise<PushRow[]> {
  const query = db.selectFrom('pushes').selectAll().where('finishedAt', 'is', null).orderBy('id')
  return (
    repositoryId === undefined ? query : query.where('repositoryId', '=', repositoryId)
  ).execute()
}

/** Pushes of a repository that may have built on what another push left: unfinished, or finished since. */
export function listSince(db: Db, { repositoryId, judgedAt }: PushRow): Promise<PushRow[]> {
  return db
    .selectFrom('pushes')
    .selectAll()
    .where('repositoryId', '=', repositoryId)
    .where((is) => is.or([is('finishedAt', 'is', null), is('finishedAt', '>=', judgedAt)]))
    .execute()
}

/** The present name of a repository. */
export async function nameOf(db: Db, repositoryId: string): Promise<string | undefined> {
  const row = await db
    .selectFrom('repositories')
    .select('name')
    .where('id', '=', repositoryId)
    .executeTakeFirst()
  return row?.name
}
