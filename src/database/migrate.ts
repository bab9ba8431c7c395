import { type Kysely, sql } from 'kysely'
import type { ColumnTypes } from './migrations/migration.ts'
import { migrations } from './migrations/migrations.ts'
import { hasRowLocks } from './row-locks.ts'
import type { Db, Schema } from './schema.ts'

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
  beforeMigration?: (version: number) => void,
): Promise<void> {
  await db.transaction().execute((tx) => migrateIn(tx, engine, wanted, beforeMigration))
}

/** Migrates within an open transaction. */
export async function migrateIn(
  tx: Db,
  engine: Engine,
  wanted = migrations,
  beforeMigration?: (version: number) => void,
): Promise<void> {
  await lockStart(tx)
  await sql`create table if not exists schema_version (version integer not null)`.execute(tx)
  const { rows } = await sql<{ version: number }>`select version from schema_version`.execute(tx)
  const version = rows[0]?.version ?? 0
  if (version > wanted.length) {
    throw new Error(
      `The database was created by a newer svc (version ${version}, this one supports ${wanted.length}); upgrade svc.`,
    )
  }
  if (version === wanted.length) return
  beforeMigration?.(version)
  for (const migration of wanted.slice(version)) {
    for (const statement of migration(columnTypes[engine])) await sql.raw(statement).execute(tx)
  }
  await sql`delete from schema_version`.execute(tx)
  await sql`insert into schema_version (version) values (${wanted.length})`.execute(tx)
}

/** Has servers that start together wait for each other until the transaction ends; on SQLite, writers do that anyway. */
export async function lockStart(tx: Db): Promise<void> {
  if (hasRowLocks(tx)) await sql`select pg_advisory_xact_lock(${advisoryLock})`.execute(tx)
}

/** The number of migrations that were applied. */
export async function schemaVersion(db: Db): Promise<number> {
  const { rows } = await sql<{ version: number }>`select version from schema_version`.execute(db)
  return rows[0]?.version ?? 0
}
