import type { Db, RunShellBytesRow, RunShellRow } from '#database/schema.ts'

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

export type Direction = 'input' | 'output'

type OfDirection = { id: string; direction: Direction }

/** How many bytes of a direction were received, and how many of them were read. */
export function progressOf(shell: RunShellRow, direction: Direction) {
  return direction === 'input'
    ? { size: shell.inputSize, read: shell.inputRead }
    : { size: shell.outputSize, read: shell.outputRead }
}

/** Appends bytes at an offset; false when the stream does not end there, or the shell has ended. */
export async function appendBytes(
  tx: Db,
  {
    id,
    direction,
    start,
    size,
    sealedBytes,
  }: OfDirection & { start: number; size: number; sealedBytes: Uint8Array },
): Promise<boolean> {
  const end = start + size
  const row = await tx
    .updateTable('runShells')
    .set(direction === 'input' ? { inputSize: end } : { outputSize: end })
    .where('id', '=', id)
    .where(direction === 'input' ? 'inputSize' : 'outputSize', '=', start)
    .where('endedAt', 'is', null)
    .returning('id')
    .executeTakeFirst()
  if (!row) return false
  await tx
    .insertInto('runShellBytes')
    .values({ shellId: id, direction, start, sealedBytes })
    .execute()
  return true
}

/** Deletes the bytes before an offset, which their reader has. */
export async function discardBytes(
  tx: Db,
  { id, direction, before }: OfDirection & { before: number },
): Promise<void> {
  await tx
    .updateTable('runShells')
    .set(direction === 'input' ? { inputRead: before } : { outputRead: before })
    .where('id', '=', id)
    .execute()
  await tx
    .deleteFrom('runShellBytes')
    .where('shellId', '=', id)
    .where('direction', '=', direction)
    .where('start', '<', before)
    .execute()
}

/** Lists the pieces from an offset on, in order. */
export function listPieces(
  db: Db,
  { id, direction, from, limit }: OfDirection & { from: number; limit: number },
): Promise<Pick<RunShellBytesRow, 'start' | 'sealedBytes'>[]> {
  return db
    .selectFrom('runShellBytes')
    .select(['start', 'sealedBytes'])
    .where('shellId', '=', id)
    .where('direction', '=', direction)
    .where('start', '>=', from)
    .orderBy('start')
    .limit(limit)
    .execute()
}
