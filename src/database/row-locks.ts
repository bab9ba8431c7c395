import type { Db } from './schema.ts'

/** Whether rows can be locked by reading them: in SQLite whoever writes is alone, and has no words for less. */
export function hasRowLocks(db: Db): boolean {
  return db.getExecutor().adapter.supportsMultipleConnections === true
}
