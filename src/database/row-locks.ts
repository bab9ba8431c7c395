import type { Db } from './schema.ts'

/** Whether `select ... for update` is supported. SQLite has a single writer and no row locks. */
export function hasRowLocks(db: Db): boolean {
  return db.getExecutor().adapter.supportsMultipleConnections === true
}
