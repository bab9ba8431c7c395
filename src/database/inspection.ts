import { join } from 'node:path'
import { type DatabaseOptions, withDialect } from './database.ts'
import { postgresDialects } from './postgres.ts'
import type { Db } from './schema.ts'
import { sqliteReadDialect } from './sqlite.ts'

/**
 * Reads a database without creating, changing or migrating anything, so its tables may be those of another version. One
 * call reads a consistent snapshot.
 */
export async function inspectDatabase<T>(
  { dataDir, url, log }: DatabaseOptions,
  read: (db: Db) => Promise<T>,
): Promise<T> {
  const dialect =
    url === undefined
      ? sqliteReadDialect(join(dataDir, 'svc.db'))
      : postgresDialects(url, log).dialect
  const db = withDialect(dialect)
  try {
    if (url === undefined) return await db.transaction().execute(read)
    const reading = db.transaction().setAccessMode('read only').setIsolationLevel('repeatable read')
    return await reading.execute(read)
  } finally {
    await db.destroy()
  }
}
