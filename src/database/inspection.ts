import { join } from 'node:path'
import { CamelCasePlugin, Kysely } from 'kysely'
import type { DatabaseOptions } from './database.ts'
import type { Db, Schema } from './schema.ts'
import { sqliteReadDialect } from './sqlite.ts'

/**
 * Reads a database as it is: nothing is made, changed or brought up to date, so its tables may be those of
 * another version. What one call reads is of one moment.
 */
export async function inspectDatabase<T>(
  { dataDir, url, log }: DatabaseOptions,
  read: (db: Db) => Promise<T>,
): Promise<T> {
  const dialect =
    url === undefined
      ? sqliteReadDialect(join(dataDir, 'svc.db'))
      : (await import('./postgres.ts')).postgresDialect(url, log)
  const db = new Kysely<Schema>({ dialect, plugins: [new CamelCasePlugin()] })
  try {
    if (url === undefined) return await db.transaction().execute(read)
    const reading = db.transaction().setAccessMode('read only').setIsolationLevel('repeatable read')
    return await reading.execute(read)
  } finally {
    await db.destroy()
  }
}
