import { type SqlBool, sql } from 'kysely'
import type { PageRequest } from '#base/list-all.ts'
import type { Db, RunCacheRow } from '#database/schema.ts'
import { type MeasuredFiles, toMeasuredFiles } from './run-file-store.ts'

/** More would make deleting all of them, and finding one by the beginning of its key, slow. */
export const maxCachesPerRepository = 2000

/** A cache with the facts of its file. */
export type StoredCache = RunCacheRow & { size: number; sha256: string }

/** Where a cache is looked for. */
export type CacheQuery = {
  repositoryId: string
  ref: string
  version: string
  /** Only caches that were saved for a protected ref. */
  isProtectedOnly: boolean
}

function cachesWithFiles(db: Db) {
  return db
    .selectFrom('runCaches')
    .innerJoin('runFiles', 'runFiles.id', 'runCaches.id')
    .selectAll('runCaches')
    .select(['runFiles.size', 'runFiles.sha256'])
}

function matching(db: Db, { repositoryId, ref, version, isProtectedOnly }: CacheQuery) {
  return cachesWithFiles(db)
    .where('runCaches.repositoryId', '=', repositoryId)
    .where('ref', '=', ref)
    .where('version', '=', version)
    .$if(isProtectedOnly, (rows) => rows.where('isProtected', '=', 1))
    .orderBy('createdAt', 'desc')
    .orderBy('runCaches.id', 'desc')
    .limit(1)
}

export function findCacheByKey(
  db: Db,
  query: CacheQuery,
  key: string,
): Promise<StoredCache | undefined> {
  return matching(db, query).where('key', '=', key).executeTakeFirst()
}

/** Finds the newest cache whose key begins with a text. */
export function findCacheByPrefix(
  db: Db,
  query: CacheQuery,
  prefix: string,
): Promise<StoredCache | undefined> {
  const start = sql`substr(${sql.ref('key')}, 1, length(cast(${prefix} as text)))`
  return matching(db, query).where(sql<SqlBool>`${start} = ${prefix}`).executeTakeFirst()
}

/** Finds the cache that a new one with these values would be a second of. */
export function findSameCache(
  db: Db,
  {
    repositoryId,
    ref,
    version,
    key,
    isProtected,
  }: Omit<RunCacheRow, 'id' | 'createdAt' | 'usedAt'>,
): Promise<StoredCache | undefined> {
  return cachesWithFiles(db)
    .where('runCaches.repositoryId', '=', repositoryId)
    .where('ref', '=', ref)
    .where('version', '=', version)
    .where('key', '=', key)
    .where('isProtected', '=', isProtected)
    .executeTakeFirst()
}

/** Inserts a cache; false when there is the same. */
export async function insertCache(tx: Db, cache: RunCacheRow): Promise<boolean> {
  const row = await tx
    .insertInto('runCaches')
    .values(cache)
    .onConflict((conflict) =>
      conflict.columns(['repositoryId', 'ref', 'version', 'key', 'isProtected']).doNothing(),
    )
    .returning('id')
    .executeTakeFirst()
  return row !== undefined
}

export async function updateCacheUse(db: Db, id: string, usedAt: number): Promise<void> {
  await db.updateTable('runCaches').set({ usedAt }).where('id', '=', id).execute()
}

/** Lists the caches of a repository after an id, oldest first. */
export function listCaches(
  db: Db,
  repositoryId: string,
  { after, limit }: PageRequest,
): Promise<StoredCache[]> {
  return cachesWithFiles(db)
    .where('runCaches.repositoryId', '=', repositoryId)
    .where('runCaches.id', '>', after)
    .orderBy('runCaches.id')
    .limit(limit)
    .execute()
}

/** Whether a ref has caches. */
export async function hasCaches(db: Db, repositoryId: string, ref: string): Promise<boolean> {
  const row = await db
    .selectFrom('runCaches')
    .select('id')
    .where('repositoryId', '=', repositoryId)
    .where('ref', '=', ref)
    .limit(1)
    .executeTakeFirst()
  return row !== undefined
}

/** Deletes caches of a repository: one by its id, or those with a key, of a ref if it is given. Returns them. */
export function deleteCaches(
  tx: Db,
  repositoryId: string,
  which: { id: string } | { key?: string | undefined; ref?: string | undefined },
): Promise<Pick<RunCacheRow, 'id' | 'key' | 'ref'>[]> {
  let query = tx.deleteFrom('runCaches').where('repositoryId', '=', repositoryId)
  if ('id' in which) query = query.where('id', '=', which.id)
  else {
    if (which.key !== undefined) query = query.where('key', '=', which.key)
    if (which.ref !== undefined) query = query.where('ref', '=', which.ref)
  }
  return query.returning(['id', 'key', 'ref']).execute()
}

/** Deletes the caches with these ids; their files are then without reference. */
export async function deleteCachesById(db: Db, ids: readonly string[]): Promise<void> {
  if (ids.length > 0) await db.deleteFrom('runCaches').where('id', 'in', ids).execute()
}

/** Deletes caches that were not used since a time. */
export async function deleteUnusedCaches(db: Db, before: number): Promise<void> {
  await db.deleteFrom('runCaches').where('usedAt', '<', before).execute()
}

/** The size and number of all caches of a repository, or of all repositories. */
export async function measureCaches(
  db: Db,
  repositoryId: string | undefined,
): Promise<MeasuredFiles> {
  const measured = await filesOfCaches(db, repositoryId)
    .select((is) => [
      is.fn.countAll<number | string>().as('count'),
      is.fn.sum<number | string | null>('runFiles.size').as('sizeBytes'),
    ])
    .executeTakeFirstOrThrow()
  return toMeasuredFiles(measured)
}

/** Lists caches of a repository, or of all, with their sizes, those that were not used for longest first. */
export function listCacheSizes(
  db: Db,
  repositoryId: string | undefined,
  limit: number,
): Promise<{ id: string; size: number }[]> {
  return filesOfCaches(db, repositoryId)
    .select(['runCaches.id', 'runFiles.size'])
    .orderBy('usedAt')
    .orderBy('runCaches.id')
    .limit(limit)
    .execute()
}

function filesOfCaches(db: Db, repositoryId: string | undefined) {
  const all = db.selectFrom('runCaches').innerJoin('runFiles', 'runFiles.id', 'runCaches.id')
  return repositoryId === undefined ? all : all.where('runCaches.repositoryId', '=', repositoryId)
}
