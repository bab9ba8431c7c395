import { statSync } from 'node:fs'
import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite'
import { setTimeout as sleep, setImmediate as yieldTurn } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import {
  type CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  type Driver,
  type QueryResult,
  SqliteAdapter,
  type SqliteDatabase,
  SqliteDialect,
  SqliteDriver,
} from 'kysely'
import { LRUCache } from 'lru-cache'
import { isBusy } from '#base/sqlite-busy.ts'
import { Naming } from './naming.ts'
import { createWalFlush, noFlush, type WalFlush } from './wal-flush.ts'

// How long one process waits for the transaction of another, such as the command line or a server.
const busyTimeoutMs = 5000
const busyRetryMs = 5
const maxCachedStatements = 200
// SQLite queries are synchronous, so a long series of them would block the event loop.
const maxTickMs = 10

type Options = {
  /** A read transaction does not block writers, and does not see their changes. */
  transactions: 'read' | 'write'
}

/**
 * Adapts node:sqlite to Kysely's SQLite dialect. A commit is durable when it returns, and queries of this dialect see it
 * only then.
 */
export function sqliteDialect(
  path: string,
  { transactions }: Options = { transactions: 'write' },
): Dialect {
  const database = new DatabaseSync(path, { timeout: busyTimeoutMs })
  // SQLite flushes the write-ahead log only before it is copied to the database; WalFlush does so after each commit.
  database.exec('pragma journal_mode = wal; pragma synchronous = normal; pragma foreign_keys = on')
  // From here on BusyRetryConnection waits, without blocking the event loop.
  database.exec('pragma busy_timeout = 0')
  const flush = transactions === 'write' ? createWalFlush(`${path}-wal`) : noFlush
  return toDialect(database, { transactions, flush })
}

/**
 * Opens a database read-only, which may be in use or damaged. Changes nothing, not even SQLite's files beside it, except
 * that SQLite running as root gives those the database's owner. Throws SQLite's error when there is no database.
 */
export function sqliteReadDialect(path: string): Dialect {
  // Opening a pipe would block.
  if (statSync(path, { throwIfNoEntry: false })?.isFile() === false) {
    throw new Error(`${path} is not a regular file`)
  }
  const url = pathToFileURL(path)
  // The latest commits are in the write-ahead log, until the last process that closes the database removes it. Without a
  // log the database is not in use, and opening it otherwise would create one.
  url.search = sizeOf(`${path}-wal`) > 0 ? 'readonly_shm=1' : 'immutable=1'
  const database = new DatabaseSync(url, { readOnly: true, timeout: 0 })
  return toDialect(database, { transactions: 'read', flush: noFlush })
}

function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0
}

function toDialect(
  database: DatabaseSync,
  { transactions, flush }: Options & { flush: WalFlush },
): Dialect {
  const statements = new LRUCache<string, Statement>({ max: maxCachedStatements })
  return new BusyRetryDialect({
    database,
    tick: new Tick(),
    flush,
    prepare(sql) {
      const cached = statements.get(sql)
      if (cached) return cached
      const text = transactions === 'write' ? asImmediate(sql) : sql
      const statement = toKyselyStatement(database.prepare(text))
      statements.set(sql, statement)
      return statement
    },
  })
}

type Statement = ReturnType<typeof toKyselyStatement>

type Connection = {
  database: DatabaseSync
  prepare: (sql: string) => Statement
  tick: Tick
  flush: WalFlush
}

class BusyRetryDialect extends SqliteDialect {
  readonly #opened: Connection

  constructor(opened: Connection) {
    super({ database: toKyselyDatabase(opened) })
    this.#opened = opened
  }

  override createDriver(): Driver {
    return new BusyRetryDriver(this.#opened)
  }

  override createAdapter(): DirectAdapter {
    return new DirectAdapter(this.#opened)
  }
}

/**
 * Reads rows without Kysely, which gives the connection to one query at a time, even while that waits to write.
 *
 * Measured: a listing takes a tenth less CPU time (0.34 instead of 0.38 ms at 8 connections), and beside four writers
 * its median is a quarter lower. Without it, `prepared` calls `executeQuery` in all cases.
 */
export class DirectAdapter extends SqliteAdapter {
  readonly #opened: Connection
  readonly #readers = new WeakMap<CompiledQuery, ReadRows>()

  constructor(opened: Connection) {
    super()
    this.#opened = opened
  }

  /** Identifies the committed state of the database; undefined during a transaction, and until it is durable. */
  stamp(): string | undefined {
    const { database, prepare, flush } = this.#opened
    if (database.isTransaction || flush.isRunning()) return undefined
    // Commits of other connections, and rows written by this one: https://sqlite.org/pragma.html#pragma_data_version
    return JSON.stringify([
      prepare('pragma data_version').all([]),
      prepare('select total_changes()').all([]),
    ])
  }

  /** Runs a query outside of a transaction; undefined when it must wait for one. The query is one of few. */
  async read(query: CompiledQuery, parameters: readonly unknown[]): Promise<object[] | undefined> {
    const { database, tick, flush } = this.#opened
    if (flush.isRunning()) await flush.ended()
    if (tick.isOver()) await tick.next()
    // There is one connection: within a transaction it would read uncommitted rows, and after it some not yet durable.
    if (database.isTransaction || flush.isRunning()) return undefined
    try {
      let reader = this.#readers.get(query)
      if (!reader) {
        reader = createReader(database.prepare(query.sql))
        this.#readers.set(query, reader)
      }
      return reader(parameters)
    } catch (error) {
      if (isBusy(error)) return undefined
      throw error
    }
  }
}

type ReadRows = (parameters: readonly unknown[]) => object[]

/** Reads rows as arrays: objects have the names of columns, which would be converted for each row. */
function createReader(statement: StatementSync): ReadRows {
  statement.setReturnArrays(true)
  const columns = statement.columns().map(({ name }) => [name, null])
  const names = Object.keys(new Naming().mapRow(Object.fromEntries(columns)))
  return (parameters) => {
    // Arrays: see above.
    const rows = statement.all(...toInput(parameters)) as unknown as unknown[][]
    return rows.map((values) => {
      const row: Record<string, unknown> = {}
      for (let at = 0; at < names.length; at++) row[names[at] ?? ''] = values[at]
      return row
    })
  }
}

class BusyRetryDriver extends SqliteDriver {
  readonly #opened: Connection
  #connection: DatabaseConnection | undefined

  constructor(opened: Connection) {
    super({ database: toKyselyDatabase(opened) })
    this.#opened = opened
  }

  override async acquireConnection(): Promise<DatabaseConnection> {
    this.#connection ??= new BusyRetryConnection(await super.acquireConnection(), this.#opened)
    return this.#connection
  }

  override async destroy(): Promise<void> {
    await super.destroy()
    await this.#opened.flush.close()
  }

  // On a full disk SQLite has already rolled back: https://sqlite.org/lang_transaction.html, section 3.
  override async rollbackTransaction(connection: DatabaseConnection): Promise<void> {
    if (this.#opened.database.isTransaction) await super.rollbackTransaction(connection)
  }
}

/** Retries while another process writes; SQLite's own busy timeout would block the event loop. So would its flush. */
class BusyRetryConnection implements DatabaseConnection {
  readonly #inner: DatabaseConnection
  readonly #opened: Connection

  constructor(inner: DatabaseConnection, opened: Connection) {
    this.#inner = inner
    this.#opened = opened
  }

  async executeQuery<R>(query: CompiledQuery): Promise<QueryResult<R>> {
    const { tick } = this.#opened
    if (tick.isOver()) await tick.next()
    const deadline = performance.now() + busyTimeoutMs
    for (;;) {
      try {
        const executed = this.#inner.executeQuery<R>(query)
        // SQLite has executed it by now: other queries wait from here on.
        await this.#flushAfter(query, executed)
        return await executed
      } catch (error) {
        if (!isBusy(error) || performance.now() > deadline) throw error
        await sleep(busyRetryMs)
      }
    }
  }

  #flushAfter({ query }: CompiledQuery, executed: Promise<unknown>): Promise<void> | undefined {
    const { database, flush } = this.#opened
    // When closed, its properties throw, and `executed` rejects.
    const isCommit = query.kind !== 'SelectQueryNode' && database.isOpen && !database.isTransaction
    return isCommit ? flush.run(executed) : undefined
  }

  streamQuery<R>(query: CompiledQuery, chunkSize: number): AsyncIterableIterator<QueryResult<R>> {
    return this.#inner.streamQuery<R>(query, chunkSize)
  }
}

/** Measures how long queries have run in the current tick of the event loop. */
class Tick {
  #number = -1
  #firstQueryAt = 0

  /** Whether the first query of this tick was too long ago. */
  isOver(): boolean {
    const { loopCount } = performance.nodeTiming.uvMetricsInfo
    const now = performance.now()
    if (loopCount === this.#number) return now - this.#firstQueryAt > maxTickMs
    this.#number = loopCount
    this.#firstQueryAt = now
    return false
  }

  /** Yields to the event loop. */
  async next(): Promise<void> {
    await yieldTurn()
    this.#firstQueryAt = performance.now()
  }
}

// A deferred transaction that reads and then writes fails at once when another process wrote in between; an immediate one
// takes the write lock at its start, and can wait for it.
function asImmediate(sql: string): string {
  return sql === 'begin' ? 'begin immediate' : sql
}

function toKyselyDatabase({ database, prepare }: Connection): SqliteDatabase {
  return { prepare, close: () => database.close() }
}

function toKyselyStatement(statement: StatementSync) {
  return {
    reader: statement.columns().length > 0,
    all: (parameters: readonly unknown[]) => statement.all(...toInput(parameters)),
    run: (parameters: readonly unknown[]) => statement.run(...toInput(parameters)),
    iterate: (parameters: readonly unknown[]) => statement.iterate(...toInput(parameters)),
  }
}

// Kysely passes on the values of typed queries: text, numbers, null and bytes.
function toInput(parameters: readonly unknown[]): SQLInputValue[] {
  return parameters as SQLInputValue[]
}
