import type { Db, FailedWorkspaceRow } from '#database/schema.ts'

export async function insertFailedWorkspace(tx: Db, row: FailedWorkspaceRow): Promise<void> {
  await tx
    .insertInto('failedWorkspaces')
    .values(row)
    .onConflict((conflict) => conflict.column('id').doNothing())
    .execute()
}

/** Lists the workspaces of the failed jobs of an attempt, oldest first, also removed ones. */
export function listFailedWorkspaces(
  db: Db,
  { runId, attempt }: Pick<FailedWorkspaceRow, 'runId' | 'attempt'>,
): Promise<FailedWorkspaceRow[]> {
  return db
    .selectFrom('failedWorkspaces')
    .selectAll()
    .where('runId', '=', runId)
    .where('attempt', '=', attempt)
    .orderBy('id')
    .execute()
}

/** Lists the workspaces that a runner keeps, as far as the database knows. */
export function listHeld(
  db: Db,
  holder: string,
): Promise<Pick<FailedWorkspaceRow, 'id' | 'seenAt'>[]> {
  return db
    .selectFrom('failedWorkspaces')
    .select(['id', 'seenAt'])
    .where('holder', '=', holder)
    .where('removedAt', 'is', null)
    .execute()
}

export async function touchFailedWorkspaces(
  db: Db,
  ids: readonly string[],
  seenAt: number,
): Promise<void> {
  if (ids.length === 0) return
  await db.updateTable('failedWorkspaces').set({ seenAt }).where('id', 'in', ids).execute()
}

/** Marks workspaces that their runner has removed. */
export async function markRemoved(
  db: Db,
  { holder, ids, removedAt }: { holder: string; ids: readonly string[]; removedAt: number },
): Promise<void> {
  if (ids.length === 0) return
  await db
    .updateTable('failedWorkspaces')
    .set({ removedAt })
    .where('id', 'in', ids)
    .where('holder', '=', holder)
    .where('removedAt', 'is', null)
    .execute()
}

/** Marks the workspaces of a lost runner, by its name. Returns the hashes of its secrets. */
export async function markLost(db: Db, runner: string, removedAt: number): Promise<string[]> {
  const rows = await db
    .updateTable('failedWorkspaces')
    .set({ removedAt })
    .where('runner', '=', runner)
    .where('removedAt', 'is', null)
    .returning('holder')
    .execute()
  return [...new Set(rows.map(({ holder }) => holder))]
}

/** Deletes the rows of a repository or of an attempt; their runners then remove the workspaces. Returns the runners. */
export async function deleteFailedWorkspaces(
  db: Db,
  of: { repositoryId: string } | { runId: string; attempt: number },
): Promise<string[]> {
  let deletion = db.deleteFrom('failedWorkspaces').returning('holder')
  if ('repositoryId' in of) deletion = deletion.where('repositoryId', '=', of.repositoryId)
  else deletion = deletion.where('runId', '=', of.runId).where('attempt', '=', of.attempt)
  const rows = await deletion.execute()
  return [...new Set(rows.map(({ holder }) => holder))]
}

/** Marks the workspaces of runners that were last seen before a time, and deletes those that were removed before another. */
export async function expireFailedWorkspaces(
  db: Db,
  { now, seenBefore, removedBefore }: { now: number; seenBefore: number; removedBefore: number },
): Promise<void> {
  await db
    .updateTable('failedWorkspaces')
    .set({ removedAt: now })
    .where('removedAt', 'is', null)
    .where('seenAt', '<', seenBefore)
    .execute()
  await db.deleteFrom('failedWorkspaces').where('removedAt', '<', removedBefore).execute()
}
