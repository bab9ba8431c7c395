import { type Dialect, PostgresDialect } from 'kysely'
import pg from 'pg'
import type { Log } from '../base/log.ts'

const poolSize = 10
const connectTimeoutMs = 5000
const statementTimeoutMs = 60_000

/** PostgreSQL by its URL. All our 64-bit integers are times and counts below 2^53, so they are numbers. */
export function postgresDialect(url: string, log: Log): Dialect {
  const pool = new pg.Pool({
    connectionString: url,
    max: poolSize,
    connectionTimeoutMillis: connectTimeoutMs,
    statement_timeout: statementTimeoutMs,
    application_name: 'svc',
    types: {
      getTypeParser: (oid, format) =>
        oid === pg.types.builtins.INT8 ? Number : pg.types.getTypeParser(oid, format),
    },
  })
  // Without a listener, a connection that breaks while idle would end the program.
  pool.on('error', (error) => log.warn({ err: error }, 'a database connection broke'))
  return new PostgresDialect({ pool })
}
