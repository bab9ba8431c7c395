import { sql } from 'kysely'
import type { Engine } from './migrate.ts'
import type { Db } from './schema.ts'
import type { Table } from './tables.ts'

/** A row by its SQL column names. */
export type Row = Record<string, Value>

type Value = string | number | null | Uint8Array

// A push may change thousands of refs, so its row can take megabytes.
const batchSize = 100

/** Reads all rows of a table in batches, in the order of its key. */
export async function* readRows(db: Db, { name, key }: Table): AsyncGenerator<Row[]> {
  const columns = sql.join(key.map((column) => sql.ref(column)))
  for (let last: Row | undefined; ; ) {
    const values = key.map((column) => last?.[column])
    const from = last ? sql`where (${columns}) > (${sql.join(values)})` : sql``
    const query = sql<Row>`select * from ${sql.table(name)} ${from} order by ${columns} limit ${batchSize}`
    const { rows } = await query.execute(db.withoutPlugins())
    if (rows.length > 0) yield rows
    if (rows.length < batchSize) return
    last = rows.at(-1)
  }
}

/** Inserts rows, which must all have the same columns. */
export async function insertRows(db: Db, table: string, rows: Row[]): Promise<void> {
  const [first] = rows
  if (!first) return
  const columns = Object.keys(first)
  const list = sql.join(columns.map((column) => sql.ref(column)))
  for (let start = 0; start < rows.length; start += batchSize) {
    const lines = rows
      .slice(start, start + batchSize)
      .map((row) => sql`(${sql.join(columns.map((column) => row[column]))})`)
    const query = sql`insert into ${sql.table(table)} (${list}) values ${sql.join(lines)}`
    await query.execute(db.withoutPlugins())
  }
}

export async function deleteRows(db: Db, table: string): Promise<void> {
  await sql`delete from ${sql.table(table)}`.execute(db.withoutPlugins())
}

/** The names of all tables in our database or schema. */
export async function listTables(db: Db, engine: Engine): Promise<string[]> {
  const { rows } = await listing[engine].execute(db.withoutPlugins())
  return rows.map(({ name }) => name)
}

const listing = {
  sqlite: sql<{ name: string }>`select name from sqlite_schema
    where type = 'table' and name not like 'sqlite\\_%' escape '\\' order by name`,
  postgres: sql<{ name: string }>`select table_name as name from information_schema.tables
    where table_schema = current_schema() order by name`,
} as const satisfies Record<Engine, unknown>
