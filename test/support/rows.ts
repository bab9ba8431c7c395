import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { databaseOf, isShared } from './kind-of-store.ts'
import { programs } from './programs.ts'

export type Row = Record<string, string | number | null>

type Rows = Disposable & {
  /** The rows of a query; each `?` in it stands for a value. */
  all: (query: string, ...values: (string | number)[]) => Row[]
  /** The names of all tables. */
  tables: () => string[]
}

/** Reads the database of a data directory, beside the server or after its end. */
export function openRows(dataDir: string): Rows {
  return isShared ? openPostgres(databaseOf(dataDir)) : openSqlite(join(dataDir, 'svc.db'))
}

function openSqlite(path: string): Rows {
  const database = new DatabaseSync(path, { readOnly: true, timeout: 5000 })
  // The columns are of text and numbers alone.
  const all: Rows['all'] = (query, ...values) => database.prepare(query).all(...values) as Row[]
  return {
    all,
    tables: () =>
      all(`select name from sqlite_schema where type = 'table'`).map(({ name }) => String(name)),
    [Symbol.dispose]: () => database.close(),
  }
}

function openPostgres(database: string): Rows {
  const url = new URL(process.env.SVC_TEST_DATABASE_URL ?? '')
  url.pathname = `/${database}`
  const psql = join(programs.postgres.find() ?? '', 'psql')
  const all: Rows['all'] = (query, ...values) => {
    const rest = [...values]
    const filled = query.replace(/\?/g, () => `'${String(rest.shift()).replace(/'/g, `''`)}'`)
    const asJson = `select coalesce(json_agg(row_to_json(found)), '[]') from (${filled}) found`
    return JSON.parse(execFileSync(psql, [url.href, '-XAtc', asJson], { encoding: 'utf8' }))
  }
  return {
    all,
    tables: () =>
      all(`select tablename as name from pg_tables where schemaname = 'public'`).map(({ name }) =>
        String(name),
      ),
    [Symbol.dispose]() {},
  }
}
