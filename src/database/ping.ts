import { prepared } from './prepared.ts'
import type { Db } from './schema.ts'

const anyRow = prepared((db) => db.selectFrom('instance').select('id').limit(1))

/** Reads one row from the database; rejects when it is unavailable. */
export async function ping(db: Db): Promise<void> {
  await anyRow(db, {})
}
