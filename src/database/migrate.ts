import { type Kysely, sql } from 'kysely'
import { type ColumnTypes, migrations, oldestServer, oldestServerOf } from './migrations.ts'
import { hasRowLocks } from './row-locks.ts'
import type { Db, Schema } from './schema.ts'

/** What is about to happen to tables of an older version, or, for version 0, to an empty database. */
export type PendingMigration = {
  tx: Db
  version: number
  /** Whether servers that do not know the migration cannot run on. */
  isChange: boolean
}

/** Throws to prevent a migration. */
export type BeforeMigration = (pending: PendingMigration) => Promise<void> | void

export type Engine = 'sqlite' | 'postgres'

const columnTypes: Record<Engine, ColumnTypes> = {
  sqlite: { milliseconds: 'integer', sequence: 'integer', bytes: 'blob', ordinal: 'text' },
  postgres: {
    milliseconds: 'bigint',
    sequence: 'bigint',
    bytes: 'bytea',
    ordinal: 'text collate "C"',
  },
}

// An arbitrary number that must never change.
const advisoryLock = 7_231_001

/**
 * Applies all pending migrations, or none. Servers that start together are serialized by SQLite's transaction or
 * PostgreSQL's advisory lock.
 */
export async function migrate(
  db: Kysely<Schema>,
  engine: Engine,
  wanted = migrations,
  beforeMigration?: BeforeMigration,
): Promise<void> {
  await db.transaction().execute((tx) => migrateIn(tx, engine, wanted, beforeMigration))
}

/** Migrates within an open transaction. */
export async function migrateIn(
  tx: Db,
  engine: Engine,
  wanted = migrations,
  beforeMigration?: BeforeMigration,
): Promise<void> {
  await lockStart(tx)
  await sql`create table if not exists schema_version (version integer not null)`.execute(tx)
  const { version, oldestServer: oldest } = await readSchema(tx)
  if (oldest > wanted.length) {
    throw new Error(
      `The database was created by a newer svc (version ${version}, this one supports ${wanted.length}); upgrade svc.`,
    )
  }
  if (version >= wanted.length) return
  await beforeMigration?.({ tx, version, isChange: oldestServerOf(wanted) > version })
  for (const migration of wanted.slice(version)) {
    for (const statement of migration(columnTypes[engine])) await sql.raw(statement).execute(tx)
  }
  await sql`delete from schema_version`.execute(tx)
  await sql`insert into schema_version (version) values (${wanted.length})`.execute(tx)
  if (!wanted.includes(oldestServer)) return
  await sql`update schema_version set oldest_server = ${oldestServerOf(wanted)}`.execute(tx)
}

/** The version of the tables, and the oldest one of a server that can run on them. */
export async function readSchema(db: Db): Promise<{ version: number; oldestServer: number }> {
  const { rows } = await sql<{
    version: number
    oldestServer?: number
  }>`select * from schema_version`.execute(db)
  const { version, oldestServer = version } = rows[0] ?? { version: 0 }
  return { version, oldestServer }
}

/** Serializes servers that start together, until the transaction ends; SQLite serializes writers anyway. */
export async function lockStart(tx: Db): Promise<void> {
  if (hasRowLocks(tx)) await sql`select pg_advisory_xact_lock(${advisoryLock})`.execute(tx)
}
