import { type Dialect, PostgresDialect, type PostgresPool } from 'kysely'
import { LRUCache } from 'lru-cache'
import pg from 'pg'
import { createSemaphore, type Semaphore } from '#base/concurrency/semaphore.ts'
import { codeOf } from '#base/error-code.ts'
import type { Log } from '#base/log.ts'
import { once } from '#base/once.ts'
import { databaseBusy } from '#base/problem.ts'

// Of PostgreSQL, its appendix A.
const planChanged = '0A000'
const transactionFailed = '25P02'
const poolSize = 10
// The other connections are for statements outside transactions, mostly reads, which rarely wait for locks.
const maxTransactions = 7
const connectTimeoutMs = 5000
const statementTimeoutMs = 10_000
const queryTimeoutMs = 15_000
// Less than what others wait for a lock: they only take longer then.
const idleInTransactionTimeoutMs = 5000

/** Connections to PostgreSQL, for transactions and for everything else. Destroying either ends all of them. */
export type PostgresDialects = { dialect: Dialect; forTransactions: Dialect }

/** Connects to PostgreSQL. All our 64-bit integers are times and counts below 2^53, so they are read as numbers. */
export function postgresDialects(url: string, log: Log): PostgresDialects {
  const names = createStatementNames()
  const pool = new pg.Pool({
    connectionString: url,
    max: poolSize,
    connectionTimeoutMillis: connectTimeoutMs,
    statement_timeout: statementTimeoutMs,
    // A server that hangs in a transaction would keep all others waiting for its locks.
    idle_in_transaction_session_timeout: idleInTransactionTimeoutMs,
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
  pool.on('connect', (client) => {
    client.on('error', report)
    prepareStatements(client, names)
  })
  const { options } = pool
  const lent = { options, connect: () => pool.connect(), end: once(() => pool.end()) }
  return {
    dialect: new PostgresDialect({ pool: lent }),
    forTransactions: new PostgresDialect({ pool: limitTransactions(lent) }),
  }
}

/** Limits the connections for transactions: transactions that wait for locks would take all. */
function limitTransactions(pool: PostgresPool): PostgresPool {
  const semaphore = createSemaphore(maxTransactions)
  return {
    ...pool,
    async connect() {
      const permit = await acquire(semaphore)
      try {
        const client = await pool.connect()
        // The pool sets this method whenever it lends a client.
        const release = client.release.bind(client)
        client.release = (...parameters) => {
          permit[Symbol.dispose]()
          release(...parameters)
        }
        return client
      } catch (error) {
        permit[Symbol.dispose]()
        throw error
      }
    },
  }
}

async function acquire(semaphore: Semaphore): Promise<Disposable> {
  const waiting = new AbortController()
  using _timer = setTimeout(() => waiting.abort(databaseBusy()), connectTimeoutMs)
  return await semaphore.acquire(waiting.signal)
}

/** Makes PostgreSQL prepare the named statements of a client. */
function prepareStatements(client: pg.PoolClient, names: ReturnType<typeof createStatementNames>) {
  const query = client.query.bind(client)
  Object.assign(client, {
    // The form in which Kysely executes statements.
    async query(text: string, values: unknown[]) {
      const name = values.length > 0 ? names.nameOf(text) : undefined
      try {
        return await query({ text, values, ...(name !== undefined && { name }) })
      } catch (error) {
        // A newer server has added a column to what the statement reads: it must be prepared again.
        if (name === undefined || codeOf(error) !== planChanged) throw error
        names.renew()
        return await query({ text, values }).catch((again) => {
          throw codeOf(again) === transactionFailed ? error : again
        })
      }
    },
  })
}

const minUses = 3
// Each connection of PostgreSQL keeps some 10 to 50 kB for a prepared statement.
const maxNames = 200
const maxCounted = 1000
const maxLength = 8192

/**
 * Names the statements that recur: PostgreSQL prepares a named one once for each connection. Statements whose text depends on
 * the number of their values stay without names, unless they recur.
 */
export function createStatementNames() {
  const names = new Map<string, string>()
  const uses = new LRUCache<string, number>({ max: maxCounted })
  let generation = 0

  return {
    /** Gives all statements other names from now on. */
    renew(): void {
      generation += 1
      names.clear()
    },

    /** Called for each execution of a statement. */
    nameOf(text: string): string | undefined {
      const known = names.get(text)
      if (known !== undefined || names.size >= maxNames || text.length > maxLength) return known
      const count = (uses.get(text) ?? 0) + 1
      if (count < minUses) {
        uses.set(text, count)
        return undefined
      }
      uses.delete(text)
      const name = `svc_${generation}_${names.size}`
      names.set(text, name)
      return name
    },
  }
}
