import { sql } from 'kysely'
import { prepared } from './prepared.ts'
import type { Db } from './schema.ts'
import { DirectAdapter } from './sqlite.ts'

// Two queries with the same snapshot see the same transactions: https://www.postgresql.org/docs/current/functions-info.html
const snapshot = prepared((db) =>
  db.selectNoFrom(sql<string>`pg_current_snapshot()::text`.as('snapshot')),
)

/**
 * Identifies the committed state of a database: it changes with every commit, by any process. Undefined during a transaction
 * of SQLite.
 */
export async function readDatabaseStamp(db: Db): Promise<string | undefined> {
  const { adapter } = db.getExecutor()
  if (adapter instanceof DirectAdapter) return adapter.stamp()
  const [row] = await snapshot(db, {})
  return row?.snapshot
}
