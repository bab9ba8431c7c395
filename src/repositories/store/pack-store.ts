import { type SqlBool, sql } from 'kysely'
import { databaseNow } from '#database/database-clock.ts'
import type { Db, PackRow } from '#database/schema.ts'
import { lockRepository } from './ref-store.ts'
import { uploadTakenBack } from './store-error.ts'

/**
 * A pack with its index: its checksum, sizes in bytes, and SHA-256 in hex. A pack of unreachable objects also has a file
 * with the time of each (gitformat-pack(5), `.mtimes`).
 */
type PackFiles = Pick<
  PackRow,
  | 'key'
  | 'hash'
  | 'packBytes'
  | 'packSha256'
  | 'idxBytes'
  | 'idxSha256'
  | 'mtimesBytes'
  | 'mtimesSha256'
>

/** A durable pack: in the row itself, or in the object storage under its key. */
export type StoredPack = PackFiles & {
  pack: Buffer | null
  idx: Buffer | null
  mtimes: Buffer | null
}

/** Where a pack of a repository can be read. */
export type LivePack = PackFiles & { isInline: boolean }

/** Announces an upload before it begins, so that its files are found if it is never committed. */
export async function insertUpload(db: Db, key: string, node: string): Promise<void> {
  await db
    .insertInto('uploads')
    .values({ key, node, begunAt: databaseNow, state: 'open' })
    .execute()
}

/** Announces uploads by clients, which may begin later, and which no server renews. */
export async function insertLaterUploads(
  db: Db,
  repositoryId: string,
  keys: string[],
  laterMs: number,
): Promise<void> {
  const begunAt = sql<number>`${databaseNow} + ${sql.lit(laterMs)}`
  const common = { node: '', repositoryId, begunAt, state: 'open' as const }
  await db
    .insertInto('uploads')
    .values(keys.map((key) => ({ key, ...common })))
    .execute()
}

/** Counts the uploads by clients of a repository that may still be completed. */
export async function countLaterUploads(db: Db, repositoryId: string): Promise<number> {
  const { count } = await db
    .selectFrom('uploads')
    .select((select) => select.fn.countAll<string>().as('count'))
    .where('repositoryId', '=', repositoryId)
    .where('state', '=', 'open')
    .executeTakeFirstOrThrow()
  return Number(count)
}

/** Lets uploads begin now; false when one of them was taken back. */
export async function renewUploads(db: Db, keys: string[]): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('uploads')
    .set({ begunAt: databaseNow })
    .where('key', 'in', keys)
    .where('state', '=', 'open')
    .executeTakeFirstOrThrow()
  return Number(numUpdatedRows) === keys.length
}

/** Closes an upload whose pack or LFS object is committed in the same transaction; false when the collector was first. */
export async function closeUpload(tx: Db, key: string): Promise<boolean> {
  const row = await tx
    .deleteFrom('uploads')
    .where('key', '=', key)
    .where('state', '=', 'open')
    .returning('key')
    .executeTakeFirst()
  return row !== undefined
}

/** Adds packs to a repository whose row is locked. Throws when an upload was taken back. */
export async function addPacks(
  tx: Db,
  repositoryId: string,
  packs: StoredPack[],
  addedAtVersion: number,
): Promise<void> {
  for (const pack of packs) {
    const isUploaded = pack.pack === null
    if (isUploaded && !(await closeUpload(tx, pack.key))) throw uploadTakenBack()
    const { numInsertedOrUpdatedRows } = await tx
      .insertInto('packs')
      .values({
        ...pack,
        repositoryId,
        addedAtVersion,
        retiredAtVersion: null,
        retiredAt: null,
      })
      .onConflict((conflict) =>
        conflict
          .columns(['repositoryId', 'hash'])
          .where('retiredAtVersion', 'is', null)
          .doNothing(),
      )
      .executeTakeFirstOrThrow()
    // The repository has the same pack from another push.
    if (numInsertedOrUpdatedRows === 0n && isUploaded) await abandonUploads(tx, [pack.key])
  }
  await tx
    .updateTable('repositories')
    .set({ packBytes: await sumPacks(tx, repositoryId) })
    .where('id', '=', repositoryId)
    .execute()
}

/** The bytes of the packs of a repository. */
export async function sumPacks(db: Db, repositoryId: string): Promise<number> {
  const { bytes } = await db
    .selectFrom('packs')
    .select(sql<string | null>`sum(pack_bytes + idx_bytes + coalesce(mtimes_bytes, 0))`.as('bytes'))
    .where('repositoryId', '=', repositoryId)
    .where('retiredAtVersion', 'is', null)
    .executeTakeFirstOrThrow()
  return Number(bytes ?? 0)
}

/** Marks uploads that no row of a pack or LFS object names: the collector deletes their files. */
export async function abandonUploads(db: Db, keys: string[]): Promise<void> {
  if (keys.length === 0) return
  const rows = keys.map((key) => ({ key, node: '', begunAt: databaseNow, state: 'dead' as const }))
  await db
    .insertInto('uploads')
    .values(rows)
    .onConflict((conflict) => conflict.column('key').doUpdateSet({ state: 'dead' }))
    .execute()
}

/**
 * The same for uploads whose work failed, as far as they are open: a commit whose response was lost has ended the others, and
 * their files are in use.
 */
export async function abandonOpenUploads(db: Db, keys: string[]): Promise<void> {
  if (keys.length === 0) return
  await db
    .updateTable('uploads')
    .set({ state: 'dead', begunAt: databaseNow })
    .where('key', 'in', keys)
    .where('state', '=', 'open')
    .execute()
}

/** Hands the uploaded files of a repository that is being deleted to the collector. */
export async function releasePacks(tx: Db, repositoryId: string): Promise<void> {
  // In the order in which changes lock rows.
  await lockRepository(tx, repositoryId)
  const rows = await tx
    .deleteFrom('packs')
    .where('repositoryId', '=', repositoryId)
    .returning(['key', sql<SqlBool>`pack is null`.as('isUploaded')])
    .execute()
  await abandonUploads(
    tx,
    rows.filter(({ isUploaded }) => isUploaded).map(({ key }) => key),
  )
}

/** Reads the files of packs whose rows contain them. Packs that have moved or are gone are left out. */
export async function readInline(
  db: Db,
  keys: string[],
): Promise<{ key: string; pack: Uint8Array; idx: Uint8Array; mtimes: Uint8Array | null }[]> {
  const rows = await db
    .selectFrom('packs')
    .select(['key', 'pack', 'idx', 'mtimes'])
    .where('key', 'in', keys)
    .execute()
  return rows.flatMap(({ pack, idx, ...row }) => (pack && idx ? [{ ...row, pack, idx }] : []))
}

/**
 * Retires packs whose objects are in other ones, in the transaction that adds those. False when one of them was retired
 * before.
 */
export async function retirePacks(tx: Db, keys: string[], version: number): Promise<boolean> {
  const { numUpdatedRows } = await tx
    .updateTable('packs')
    .set({ retiredAtVersion: version, retiredAt: databaseNow })
    .where('key', 'in', keys)
    .where('retiredAtVersion', 'is', null)
    .executeTakeFirstOrThrow()
  return Number(numUpdatedRows) === keys.length
}
