import { type Dialect, PostgresDialect } from 'kysely'
import pg from 'pg'
import type { Log } from '../base/log.ts'

const poolSize = 10
const connectTimeoutMs = 5000
const statementTimeoutMs = 10_000
const queryTimeoutMs = 15_000

/** Connects to PostgreSQL. All our 64-bit integers are times and counts below 2^53, so they are read as numbers. */
export function postgresDialect(url: string, log: Log): Dialect {
  const pool = new pg.Pool({
    connectionString: url,
    max: poolSize,
    connectionTimeoutMillis: connectTimeoutMs,
    statement_timeout: statementTimeoutMs,
    // A server that hangs does not enforce its own timeout.
    query_timeout: queryTimeoutMs,
    application_name: 'svc',
    types: {
      getTypeParser: (oid, format) =>
        oid === pg.types.builtins.INT8 ? Number : pg.types.getTypeParser(oid, format),
    },
  })
  // Without these listeners, a broken connection would end the process: the pool reports idle connections, and each
  // client its own.
  const report = (error: Error) => log.warn({ reason: error.message }, 'database connection lost')
  pool.on('error', report)
  pool.on('connect', (client) => client.on('error', report))
  return new PostgresDialect({ pool })
}
