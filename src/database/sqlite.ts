import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite'
import { type Dialect, SqliteDialect } from 'kysely'

const busyTimeoutMs = 5000
const cachedStatements = 200

/** Feeds node:sqlite to Kysely's SQLite dialect. Every commit is on the disk before it is reported. */
export function sqliteDialect(path: string): Dialect {
  const database = new DatabaseSync(path, { timeout: busyTimeoutMs })
  database.exec('pragma journal_mode = wal; pragma synchronous = full; pragma foreign_keys = on')
  const statements = new Map<string, ReturnType<typeof toKyselyStatement>>()
  return new SqliteDialect({
    database: {
      close: () => database.close(),
      prepare(sql) {
        const cached = statements.get(sql)
        if (cached) return cached
        if (statements.size >= cachedStatements) statements.clear()
        const statement = toKyselyStatement(database.prepare(asImmediate(sql)))
        statements.set(sql, statement)
        return statement
      },
    },
  })
}

// A transaction that first reads and then writes fails at once when another process wrote in between;
// one that asks for the right to write at its start waits for its turn.
function asImmediate(sql: string): string {
  return sql === 'begin' ? 'begin immediate' : sql
}

function toKyselyStatement(statement: StatementSync) {
  // Kysely hands on what the typed queries were given: text, numbers and null.
  const values = (parameters: readonly unknown[]) => parameters as SQLInputValue[]
  return {
    reader: statement.columns().length > 0,
    all: (parameters: readonly unknown[]) => statement.all(...values(parameters)),
    run: (parameters: readonly unknown[]) => statement.run(...values(parameters)),
    iterate: (parameters: readonly unknown[]) => statement.iterate(...values(parameters)),
  }
}
