import type { Db, LfsObjectRow } from '#database/schema.ts'
import { addLfsBytes, lockSizes } from './repository-size-store.ts'

/** Lists those of some LFS objects that a repository has. */
export function listLfsObjects(
  db: Db,
  repositoryId: string,
  oids: readonly string[],
): Promise<LfsObjectRow[]> {
  return db
    .selectFrom('lfsObjects')
    .selectAll()
    .where('repositoryId', '=', repositoryId)
    .where('oid', 'in', oids)
    .execute()
}

/** Inserts an LFS object; false when the repository has it already. */
export async function insertLfsObject(tx: Db, row: LfsObjectRow): Promise<boolean> {
  await lockSizes(tx, row.repositoryId)
  const inserted = await tx
    .insertInto('lfsObjects')
    .values(row)
    .onConflict((conflict) => conflict.columns(['repositoryId', 'oid']).doNothing())
    .returning('oid')
    .executeTakeFirst()
  if (inserted) await addLfsBytes(tx, row.repositoryId, row.size)
  return inserted !== undefined
}

/** Starts anew the time after which some objects are deleted unless a pointer names them. */
export async function renewLfsObjects(
  db: Db,
  { repositoryId, oids, now }: { repositoryId: string; oids: readonly string[]; now: number },
): Promise<void> {
  await db
    .updateTable('lfsObjects')
    .set({ renewedAt: now })
    .where('repositoryId', '=', repositoryId)
    .where('oid', 'in', oids)
    .execute()
}

/** Lists the ids of the LFS objects of a repository that were last renewed before a time. */
export async function listOldLfsObjects(
  db: Db,
  repositoryId: string,
  before: number,
): Promise<string[]> {
  const rows = await db
    .selectFrom('lfsObjects')
    .select('oid')
    .where('repositoryId', '=', repositoryId)
    .where('renewedAt', '<', before)
    .execute()
  return rows.map(({ oid }) => oid)
}

/** Deletes those of some LFS objects that were last renewed before a time. Returns them. */
export async function deleteLfsObjects(
  tx: Db,
  repositoryId: string,
  oids: readonly string[],
  before: number,
): Promise<LfsObjectRow[]> {
  const rows = await tx
    .deleteFrom('lfsObjects')
    .where('repositoryId', '=', repositoryId)
    .where('oid', 'in', oids)
    .where('renewedAt', '<', before)
    .returningAll()
    .execute()
  const bytes = rows.reduce((sum, { size }) => sum + size, 0)
  if (bytes > 0) await addLfsBytes(tx, repositoryId, -bytes)
  return rows
}

/** Deletes all LFS objects of a repository. Returns their keys in the bucket. */
export async function deleteLfsObjectsOf(tx: Db, repositoryId: string): Promise<string[]> {
  const rows = await tx
    .deleteFrom('lfsObjects')
    .where('repositoryId', '=', repositoryId)
    .returning('bucketKey')
    .execute()
  return rows.flatMap(({ bucketKey }) => bucketKey ?? [])
}

/** Finds a repository with old LFS objects that were not looked for in its pointers for long. */
export async function findUncheckedLfs(
  db: Db,
  { olderThan, uncheckedSince }: { olderThan: number; uncheckedSince: number },
): Promise<string | undefined> {
  const row = await db
    .selectFrom('lfsObjects')
    .innerJoin('repositories', 'repositories.id', 'lfsObjects.repositoryId')
    .select('repositoryId')
    .where('renewedAt', '<', olderThan)
    .where('checkedAt', '<', uncheckedSince)
    .where('repositories.state', '=', 'ready')
    .limit(1)
    .executeTakeFirst()
  return row?.repositoryId
}

/** Finds a repository whose import left LFS objects behind, and that has got some since they were last counted. */
export async function findUncountedLfs(db: Db): Promise<string | undefined> {
  const row = await db
    .selectFrom('repositories')
    .innerJoin('lfsObjects', 'lfsObjects.repositoryId', 'repositories.id')
    .select('repositories.id')
    .where('missingLfsObjects', '>', 0)
    .where('state', '=', 'ready')
    .whereRef('checkedAt', '=', 'lfsObjects.createdAt')
    .limit(1)
    .executeTakeFirst()
  return row?.id
}

/** Notes that the LFS objects of a repository are looked for in its pointers: all, or only those that never were. */
export async function noteLfsCheck(
  db: Db,
  { repositoryId, now, which }: { repositoryId: string; now: number; which: 'all' | 'new' },
): Promise<void> {
  let query = db
    .updateTable('lfsObjects')
    .set({ checkedAt: now })
    .where('repositoryId', '=', repositoryId)
  if (which === 'new') query = query.whereRef('checkedAt', '=', 'createdAt')
  await query.execute()
}

/** Sets the key of an LFS object in the bucket; false when it has one. */
export async function setLfsBucketKey(
  tx: Db,
  { repositoryId, oid }: Pick<LfsObjectRow, 'repositoryId' | 'oid'>,
  bucketKey: string | null,
): Promise<boolean> {
  const { numUpdatedRows } = await tx
    .updateTable('lfsObjects')
    .set({ bucketKey })
    .where('repositoryId', '=', repositoryId)
    .where('oid', '=', oid)
    .where('bucketKey', 'is', null)
    .executeTakeFirstOrThrow()
  return numUpdatedRows > 0n
}

/** The bytes of all LFS objects of a repository. */
export async function sumLfsObjects(db: Db, repositoryId: string): Promise<number> {
  const { bytes } = await db
    .selectFrom('lfsObjects')
    .select((is) => is.fn.sum<number | string | null>('size').as('bytes'))
    .where('repositoryId', '=', repositoryId)
    .executeTakeFirstOrThrow()
  return Number(bytes ?? 0)
}

/** The LFS objects of all complete repositories, or of one, by the ids of repositories. */
export async function listAllLfsObjects(
  db: Db,
  repositoryId?: string,
): Promise<Map<string, LfsObjectRow[]>> {
  const rows = await db
    .selectFrom('lfsObjects')
    .innerJoin('repositories', 'repositories.id', 'lfsObjects.repositoryId')
    .selectAll('lfsObjects')
    .where('repositories.state', 'in', ['ready', 'deleted'])
    .$if(repositoryId !== undefined, (all) => all.where('repositoryId', '=', repositoryId ?? ''))
    .execute()
  return Map.groupBy(rows, (row) => row.repositoryId)
}

/** Notes that all LFS objects are files of this machine. */
export async function forgetBucketKeys(tx: Db): Promise<void> {
  await tx.updateTable('lfsObjects').set({ bucketKey: null }).execute()
}

/** How many objects of Git LFS the files of a repository name that its import left behind. */
export async function countMissingLfsObjects(db: Db, id: string): Promise<number> {
  const row = await db
    .selectFrom('repositories')
    .select('missingLfsObjects')
    .where('id', '=', id)
    .executeTakeFirst()
  return row?.missingLfsObjects ?? 0
}

/** Records how many objects of Git LFS that its import left behind a repository still lacks. */
export async function updateMissingLfsObjects(db: Db, id: string, count: number): Promise<void> {
  await db
    .updateTable('repositories')
    .set({ missingLfsObjects: count })
    .where('id', '=', id)
    .execute()
}
