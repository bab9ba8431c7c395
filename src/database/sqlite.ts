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
import { isBusy } from '../base/sqlite-busy.ts'
import { Naming } from './naming.ts'

// How long one process waits for another (the command line, a server) to end its transaction.
const busyTimeoutMs = 5000
const busyPauseMs = 5
const cachedStatements = 200
// SQLite answers at once, so work that asks for much, one after the other, would let nothing else have its turn.
const turnMs = 10

type Use = {
  /** What transactions are for: one that only reads keeps nobody from writing, and sees none of it. */
  transactions: 'read' | 'write'
}

/** Feeds node:sqlite to Kysely's SQLite dialect. Every commit is on the disk before it is reported. */
export function sqliteDialect(
  path: string,
  { transactions }: Use = { transactions: 'write' },
): Dialect {
  const database = new DatabaseSync(path, { timeout: busyTimeoutMs })
  database.exec('pragma journal_mode = wal; pragma synchronous = full; pragma foreign_keys = on')
  // From here on it is waited for without holding up everything else: see PatientConnection.
  database.exec('pragma busy_timeout = 0')
  return toDialect(database, transactions)
}

/**
 * The same for looking alone: of a database that may be in use or damaged nothing is changed, not even what
 * SQLite keeps beside it, but that for root it gives those files the database's owner. Throws SQLite's error
 * when there is none.
 */
export function sqliteReadDialect(path: string): Dialect {
  // A pipe would be waited for.
  if (statSync(path, { throwIfNoEntry: false })?.isFile() === false) {
    throw new Error(`${path} is no plain file`)
  }
  const url = pathToFileURL(path)
  // What was committed last is in the log beside the database, unless the last to use it has cleared that
  // away. Without a log nobody is at work, and to look for one would be to make one.
  url.search = sizeOf(`${path}-wal`) > 0 ? 'readonly_shm=1' : 'immutable=1'
  return toDialect(new DatabaseSync(url, { readOnly: true, timeout: 0 }), 'read')
}

function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0
}

function toDialect(database: DatabaseSync, transactions: Use['transactions']): Dialect {
  const statements = new Map<string, Statement>()
  return new BusyRetryDialect({
    database,
    turn: new Turn(),
    prepare(sql) {
      const cached = statements.get(sql)
      if (cached) return cached
      if (statements.size >= cachedStatements) statements.clear()
      const text = transactions === 'write' ? asImmediate(sql) : sql
      const statement = toKyselyStatement(database.prepare(text))
      statements.set(sql, statement)
      return statement
    },
  })
}

type Statement = ReturnType<typeof toKyselyStatement>

type Opened = { database: DatabaseSync; prepare: (sql: string) => Statement; turn: Turn }

class BusyRetryDialect extends SqliteDialect {
  readonly #opened: Opened

  constructor(opened: Opened) {
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

/** Reads rows past Kysely, which lets one query at a time have the connection, be it only waiting to write. */
export class DirectAdapter extends SqliteAdapter {
  readonly #opened: Opened
  readonly #naming = new Naming()

  constructor(opened: Opened) {
    super()
    this.#opened = opened
  }

  /** What a query finds that is no part of a transaction; undefined when it has to wait for one. */
  async read(query: Pick<CompiledQuery, 'sql' | 'parameters'>): Promise<object[] | undefined> {
    const { database, prepare, turn } = this.#opened
    if (turn.isOver()) await turn.next()
    // There is one connection: what it reads in a transaction may never be committed.
    if (database.isTransaction) return undefined
    try {
      return prepare(query.sql)
        .all(query.parameters)
        .map((row) => this.#naming.mapRow(row))
    } catch (error) {
      if (isBusy(error)) return undefined
      throw error
    }
  }
}

class BusyRetryDriver extends SqliteDriver {
  readonly #opened: Opened
  #connection: DatabaseConnection | undefined

  constructor(opened: Opened) {
    super({ database: toKyselyDatabase(opened) })
    this.#opened = opened
  }

  override async acquireConnection(): Promise<DatabaseConnection> {
    this.#connection ??= new BusyRetryConnection(await super.acquireConnection(), this.#opened.turn)
    return this.#connection
  }

  // On a full disk SQLite rolls back by itself: https://sqlite.org/lang_transaction.html, section 3.
  override async rollbackTransaction(connection: DatabaseConnection): Promise<void> {
    if (this.#opened.database.isTransaction) await super.rollbackTransaction(connection)
  }
}

/** Waits for its turn when another process is writing; SQLite's own waiting would block the whole program. */
class BusyRetryConnection implements DatabaseConnection {
  readonly #inner: DatabaseConnection
  readonly #turn: Turn

  constructor(inner: DatabaseConnection, turn: Turn) {
    this.#inner = inner
    this.#turn = turn
  }

  async executeQuery<R>(query: CompiledQuery): Promise<QueryResult<R>> {
    if (this.#turn.isOver()) await this.#turn.next()
    const deadline = performance.now() + busyTimeoutMs
    for (;;) {
      try {
        return await this.#inner.executeQuery<R>(query)
      } catch (error) {
        if (!isBusy(error) || performance.now() > deadline) throw error
        await sleep(busyPauseMs)
      }
    }
  }

  streamQuery<R>(query: CompiledQuery, chunkSize: number): AsyncIterableIterator<QueryResult<R>> {
    return this.#inner.streamQuery<R>(query, chunkSize)
  }
}

/** A turn of the event loop, as those see it who ask the database. */
class Turn {
  #number = -1
  #askedAt = 0

  /** Whether the database was first asked long ago in this turn. */
  isOver(): boolean {
    const { loopCount } = performance.nodeTiming.uvMetricsInfo
    const now = performance.now()
    if (loopCount === this.#number) return now - this.#askedAt > turnMs
    this.#number = loopCount
    this.#askedAt = now
    return false
  }

  /** Lets everything else have its turn. */
  async next(): Promise<void> {
    await yieldTurn()
    this.#askedAt = performance.now()
  }
}

// A transaction that first reads and then writes fails at once when another process wrote in between;
// one that asks for the right to write at its start waits for its turn.
function asImmediate(sql: string): string {
  return sql === 'begin' ? 'begin immediate' : sql
}

function toKyselyDatabase({ database, prepare }: Opened): SqliteDatabase {
  return { prepare, close: () => database.close() }
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
