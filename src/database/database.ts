import { join } from 'node:path'
import { CamelCasePlugin, Kysely } from 'kysely'
import type { Log } from '../base/log.ts'
import { migrate } from './migrate.ts'
import type { Schema } from './schema.ts'
import { sqliteDialect } from './sqlite.ts'

export type Database = Kysely<Schema>

export type DatabaseOptions = {
  dataDir: string
  /** A PostgreSQL URL; without one the database is SQLite in the data directory. */
  url: string | undefined
  log: Log
}

/** Opens the database and brings its tables up to date. */
export async function openDatabase({ dataDir, url, log }: DatabaseOptions): Promise<Database> {
  const engine = url === undefined ? 'sqlite' : 'postgres'
  const dialect =
    url === undefined
      ? sqliteDialect(join(dataDir, 'svc.db'))
      : // Loaded only where it is used: it takes memory and time at the start.
        (await import('./postgres.ts')).postgresDialect(url, log)
  const db = new Kysely<Schema>({ dialect, plugins: [new CamelCasePlugin()] })
  try {
    await migrate(db, engine)
  } catch (error) {
    await db.destroy()
    throw error
  }
  return db
}
