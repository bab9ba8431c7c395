import type { RunShellRow } from '#database/run-shell-schema.ts'
import type { Db } from '#database/schema.ts'

/** Inserts a shell; false when its run has one that has not ended. */
export async function insertShell(tx: Db, shell: RunShellRow): Promise<boolean> {
  const row = await tx
    .insertInto('runShells')
    .values(shell)
    .onConflict((conflict) => conflict.column('runId').where('endedAt', 'is', null).doNothing())
    .returning('id')
    .executeTakeFirst()
  return row !== undefined
}

export function findShell(db: Db, id: string): Promise<RunShellRow | undefined> {
  return db.selectFrom('runShells').selectAll().where('id', '=', id).executeTakeFirst()
}

/** Finds the shell of a run that has not ended. */
export function findOpenShell(db: Db, runId: string): Promise<RunShellRow | undefined> {
  return db
    .selectFrom('runShells')
    .selectAll()
    .where('runId', '=', runId)
    .where('endedAt', 'is', null)
    .executeTakeFirst()
}

/** Takes the oldest shell that waits for a runner; undefined when there is none, or another request took it. */
export async function takeShell(
  db: Db,
  holder: string,
  now: number,
): Promise<RunShellRow | undefined> {
  const waiting = await db
    .selectFrom('runShells')
    .select('id')
    .where('holder', '=', holder)
    .where('startedAt', 'is', null)
    .where('endedAt', 'is', null)
    .orderBy('id')
    .executeTakeFirst()
  if (!waiting) return undefined
  return db
    .updateTable('runShells')
    .set({ startedAt: now, runnerSeenAt: now })
    .where('id', '=', waiting.id)
    .where('startedAt', 'is', null)
    .where('endedAt', 'is', null)
    .returningAll()
    .executeTakeFirst()
}

/** Changes a shell that has not ended; false when it has. */
export async function updateShell(
  db: Db,
  id: string,
  values: Partial<RunShellRow>,
): Promise<boolean> {
  const row = await db
    .updateTable('runShells')
    .set(values)
    .where('id', '=', id)
    .where('endedAt', 'is', null)
    .returning('id')
    .executeTakeFirst()
  return row !== undefined
}

export function listOpenShells(db: Db): Promise<RunShellRow[]> {
  return db.selectFrom('runShells').selectAll().where('endedAt', 'is', null).execute()
}

/** Deletes shells that ended before a time, with their bytes. */
export async function deleteEndedShells(db: Db, endedBefore: number): Promise<void> {
  await db.deleteFrom('runShells').where('endedAt', '<', endedBefore).execute()
}
