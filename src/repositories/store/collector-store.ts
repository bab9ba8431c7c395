import { type SqlBool, sql } from 'kysely'
import type { Database } from '#database/database.ts'
import { databaseNow } from '#database/database-clock.ts'
import { abandonUploads } from './pack-store.ts'

const batchSize = 500

const olderThan = (column: 'begun_at' | 'retired_at', ms: number) =>
  sql<SqlBool>`${sql.ref(column)} < ${databaseNow} - ${sql.lit(ms)}`

// In one long transaction, a backup reads the rows of packs, and then their files.
const sinceNoTransaction = (column: 'begun_at' | 'retired_at') =>
  sql<SqlBool>`not exists (
    select from pg_stat_activity
    where datname = current_database()
      and extract(epoch from xact_start) * 1000 <= ${sql.ref(column)} and pid <> pg_backend_pid()
  )`

/** Takes back uploads that have not been committed for long. From then on they cannot be. */
export async function takeBackUploads(db: Database, afterMs: number): Promise<void> {
  await db
    .updateTable('uploads')
    .set({ state: 'dead' })
    .where('state', '=', 'open')
    .where(olderThan('begun_at', afterMs))
    .execute()
}

/** Deletes the rows of packs that were retired long ago, and hands their files to the collector. */
export async function dropRetired(db: Database, afterMs: number): Promise<void> {
  await db.transaction().execute(async (tx) => {
    const rows = await tx
      .deleteFrom('packs')
      .where(olderThan('retired_at', afterMs))
      .where(sinceNoTransaction('retired_at'))
      .returning(['key', sql<SqlBool>`pack is null`.as('isUploaded')])
      .execute()
    await abandonUploads(
      tx,
      rows.filter(({ isUploaded }) => isUploaded).map(({ key }) => key),
    )
  })
}

/** Uploads whose files may be deleted, in batches: those that no running transaction can have read as a pack's. */
export async function listDead(db: Database): Promise<string[]> {
  const rows = await db
    .selectFrom('uploads')
    .select('key')
    .where('state', '=', 'dead')
    .where(sinceNoTransaction('begun_at'))
    .orderBy('key')
    .limit(batchSize)
    .execute()
  return rows.map(({ key }) => key)
}

export async function forgetUpload(db: Database, key: string): Promise<void> {
  await db.deleteFrom('uploads').where('key', '=', key).where('state', '=', 'dead').execute()
}
