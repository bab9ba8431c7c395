import { join } from 'node:path'
import { type Dialect, Kysely } from 'kysely'
import type { Log } from '#base/log.ts'
import { type BeforeMigration, type Engine, migrate } from './migrate.ts'
import { migrations } from './migrations.ts'
import { Naming } from './naming.ts'
import { postgresDialects } from './postgres.ts'
import type { Schema } from './schema.ts'
import { sqliteDialect } from './sqlite.ts'

export type Database = Kysely<Schema>

export type DatabaseOptions = {
  dataDir: string
  /** A PostgreSQL URL; undefined for SQLite in the data directory. */
  url: string | undefined
  log: Log
  /** Called after each commit. */
  onCommit?: () => void
  beforeMigration?: BeforeMigration | undefined
}

/** Opens the database and applies pending migrations. */
export async function openDatabase(options: DatabaseOptions): Promise<Database> {
  const db = connect(options)
  try {
    await migrate(db, engineOf(options), migrations, options.beforeMigration)
  } catch (error) {
    await db.destroy()
    throw error
  }
  return db
}

/** Opens the database without migrating it. */
export function connect({ dataDir, url, log, onCommit }: DatabaseOptions): Database {
  if (url === undefined) {
    const dialect = sqliteDialect(join(dataDir, 'svc.db'))
    return withDialect(onCommit ? notifying(dialect, onCommit) : dialect)
  }
  const { dialect, forTransactions } = postgresDialects(url, log)
  const db = withDialect(dialect)
  const other = withDialect(onCommit ? notifying(forTransactions, onCommit) : forTransactions)
  db.transaction = () => other.transaction()
  const destroy = db.destroy.bind(db)
  db.destroy = async () => {
    // Only a driver that was used ends the connections.
    await Promise.all([other.destroy(), destroy()])
  }
  return db
}

export function withDialect(dialect: Dialect): Database {
  return new Kysely<Schema>({ dialect, plugins: [new Naming()] })
}

function notifying(dialect: Dialect, onCommit: () => void): Dialect {
  return {
    createAdapter: () => dialect.createAdapter(),
    createQueryCompiler: () => dialect.createQueryCompiler(),
    createIntrospector: (db) => dialect.createIntrospector(db),
    createDriver() {
      const driver = dialect.createDriver()
      const commit = driver.commitTransaction.bind(driver)
      driver.commitTransaction = async (connection) => {
        await commit(connection)
        onCommit()
      }
      return driver
    },
  }
}

export function engineOf({ url }: Pick<DatabaseOptions, 'url'>): Engine {
  return url === undefined ? 'sqlite' : 'postgres'
}
