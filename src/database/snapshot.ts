import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { type ControlledTransaction, sql } from 'kysely'
import { isBusy } from '#base/sqlite-busy.ts'
import { connect, type Database, type DatabaseOptions, engineOf, withDialect } from './database.ts'
import type { Db, Schema } from './schema.ts'
import { sqliteDialect } from './sqlite.ts'

/** A consistent snapshot of all rows, until disposed. */
export type RowSnapshot<T> = AsyncDisposable & { db: Db; found: T }

// Writers fail after waiting for 5 s, so the fence must end well before.
const maxFenceMs = 2000
const fenceTimeoutMs = 15_000
const fenceRetryMs = 2
const lockTimeout = '2s'

/**
 * Opens a consistent snapshot of all rows. Writes to pushes and repositories are blocked until `read` has read what must
 * match these rows. `read` has two seconds: then its signal is aborted, and it should throw.
 */
export async function openRowSnapshot<T>(
  options: DatabaseOptions,
  read: (db: Db, signal: AbortSignal) => Promise<T>,
): Promise<RowSnapshot<T>> {
  await using opening = new AsyncDisposableStack()
  const open = engineOf(options) === 'sqlite' ? openSqlite : openPostgres
  const { db, release } = await open(options, opening)
  let found: T
  try {
    found = await read(db, AbortSignal.timeout(maxFenceMs))
  } finally {
    await release()
  }
  const held = opening.move()
  return { db, found, [Symbol.asyncDispose]: () => held.disposeAsync() }
}

/** Opens a consistent snapshot of all rows of PostgreSQL, which blocks no writer. */
export async function openPlainSnapshot(options: DatabaseOptions): Promise<RowSnapshot<undefined>> {
  await using opening = new AsyncDisposableStack()
  const pool = connect(options)
  opening.defer(() => pool.destroy())
  const db = await startSnapshot(pool, opening)
  const held = opening.move()
  return { db, found: undefined, [Symbol.asyncDispose]: () => held.disposeAsync() }
}

type FencedSnapshot = { db: Db; release: () => Promise<void> | void }

async function openSqlite(
  { dataDir }: DatabaseOptions,
  opening: AsyncDisposableStack,
): Promise<FencedSnapshot> {
  const path = join(dataDir, 'svc.db')
  const reader = withDialect(sqliteDialect(path, { transactions: 'read' }))
  opening.defer(() => reader.destroy())
  const fence = await fenceSqlite(path)
  try {
    const transaction = await reader.startTransaction().execute()
    opening.defer(() => end(transaction))
    await takeSnapshot(transaction)
    return { db: transaction, release: () => fence.close() }
  } catch (error) {
    fence.close()
    throw error
  }
}

// A write transaction excludes all other writers: https://sqlite.org/lang_transaction.html
async function fenceSqlite(path: string): Promise<DatabaseSync> {
  const deadline = performance.now() + fenceTimeoutMs
  const fence = new DatabaseSync(path, { timeout: 0 })
  for (;;) {
    try {
      fence.exec('begin immediate')
      return fence
    } catch (error) {
      if (isBusy(error) && performance.now() < deadline) {
        await sleep(fenceRetryMs)
        continue
      }
      fence.close()
      throw error
    }
  }
}

async function openPostgres(
  options: DatabaseOptions,
  opening: AsyncDisposableStack,
): Promise<FencedSnapshot> {
  const pool = connect(options)
  opening.defer(() => pool.destroy())
  const fence = await pool.startTransaction().execute()
  opening.defer(() => end(fence))
  await allowIdleness(fence)
  await sql`set local lock_timeout = ${sql.lit(lockTimeout)}`.execute(fence)
  // In the same order as a deletion locks them, to avoid a deadlock.
  await sql`lock table repositories, pushes in share mode`.execute(fence)
  return { db: await startSnapshot(pool, opening), release: () => end(fence) }
}

async function startSnapshot(pool: Database, opening: AsyncDisposableStack): Promise<Db> {
  const transaction = await pool
    .startTransaction()
    .setIsolationLevel('repeatable read')
    .setAccessMode('read only')
    .execute()
  opening.defer(() => end(transaction))
  await allowIdleness(transaction)
  await takeSnapshot(transaction)
  return transaction
}

/** Lets a transaction of PostgreSQL wait for what happens outside the database. */
async function allowIdleness(transaction: Db): Promise<void> {
  await sql`set local idle_in_transaction_session_timeout = 0`.execute(transaction)
}

// The snapshot of a transaction is taken by its first query.
async function takeSnapshot(db: Db): Promise<void> {
  await sql`select version from schema_version`.execute(db)
}

async function end(transaction: ControlledTransaction<Schema>): Promise<void> {
  if (!transaction.isRolledBack) await transaction.rollback().execute()
}
