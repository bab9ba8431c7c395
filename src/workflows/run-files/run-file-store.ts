import type { Db, RunFileRow } from '#database/schema.ts'

/** A file that is complete. */
export type KeptFile = Pick<RunFileRow, 'id' | 'repositoryId' | 'size' | 'sha256'>

export type MeasuredFiles = { count: number; sizeBytes: number }

/** Converts a count and a sum, which PostgreSQL returns as texts. */
export function toMeasuredFiles({ count, sizeBytes }: Measured): MeasuredFiles {
  return { count: Number(count), sizeBytes: Number(sizeBytes ?? 0) }
}

type Measured = { count: number | string; sizeBytes: number | string | null }

/** Announces a file before it is received, so that it is found if it is never committed. */
export async function insertOpenFile(
  db: Db,
  file: Pick<RunFileRow, 'id' | 'repositoryId' | 'node'> & { now: number },
): Promise<void> {
  const { now, ...rest } = file
  const row = { ...rest, state: 'open', size: 0, sha256: '', changedAt: now } as const
  await db.insertInto('runFiles').values(row).execute()
}

/** Keeps a received file, in the transaction that inserts what it is; false when it was given up meanwhile. */
export async function keepFile(
  tx: Db,
  { id, size, sha256, now }: Pick<RunFileRow, 'id' | 'size' | 'sha256'> & { now: number },
): Promise<boolean> {
  const row = await tx
    .updateTable('runFiles')
    .set({ state: 'kept', size, sha256, changedAt: now })
    .where('id', '=', id)
    .where('state', '=', 'open')
    .returning('id')
    .executeTakeFirst()
  return row !== undefined
}

export async function markFilesDead(db: Db, ids: readonly string[], now: number): Promise<void> {
  if (ids.length === 0) return
  await markDead(db, now).where('id', 'in', ids).execute()
}

/** Gives up a file that was not kept. */
export async function abandonFile(db: Db, id: string, now: number): Promise<void> {
  await markDead(db, now).where('id', '=', id).where('state', '=', 'open').execute()
}

/** Gives up what a server was receiving when it ended. */
export async function giveUpFilesOf(db: Db, node: string, now: number): Promise<void> {
  await markDead(db, now).where('state', '=', 'open').where('node', '=', node).execute()
}

/** Gives up what has been open for long. */
export async function giveUpFilesBefore(db: Db, before: number, now: number): Promise<void> {
  await markDead(db, now).where('state', '=', 'open').where('changedAt', '<', before).execute()
}

/** Gives up files whose artifact or cache was deleted with its run or repository. */
export async function giveUpUnreferenced(db: Db, now: number): Promise<void> {
  await markDead(db, now)
    .where('state', '=', 'kept')
    .where((is) =>
      is.not(
        is.exists(
          is.selectFrom('artifacts').select('id').whereRef('artifacts.id', '=', 'runFiles.id'),
        ),
      ),
    )
    .where((is) =>
      is.not(
        is.exists(
          is.selectFrom('runCaches').select('id').whereRef('runCaches.id', '=', 'runFiles.id'),
        ),
      ),
    )
    .execute()
}

/** Lists files of artifacts and caches after an id. */
export function listKeptFiles(
  db: Db,
  after: string,
  limit: number,
): Promise<Pick<RunFileRow, 'id' | 'repositoryId' | 'size'>[]> {
  return db
    .selectFrom('runFiles')
    .select(['id', 'repositoryId', 'size'])
    .where('state', '=', 'kept')
    .where('id', '>', after)
    .orderBy('id')
    .limit(limit)
    .execute()
}

/** Lists files that were given up before a time, in batches. */
export function listDeadFiles(
  db: Db,
  before: number,
  limit: number,
): Promise<Pick<RunFileRow, 'id' | 'repositoryId'>[]> {
  return db
    .selectFrom('runFiles')
    .select(['id', 'repositoryId'])
    .where('state', '=', 'dead')
    .where('changedAt', '<=', before)
    .orderBy('changedAt')
    .orderBy('id')
    .limit(limit)
    .execute()
}

/** Deletes the row of a file that is removed. */
export async function deleteDeadFile(db: Db, id: string): Promise<void> {
  await db.deleteFrom('runFiles').where('id', '=', id).where('state', '=', 'dead').execute()
}

function markDead(db: Db, now: number) {
  return db.updateTable('runFiles').set({ state: 'dead', changedAt: now })
}
