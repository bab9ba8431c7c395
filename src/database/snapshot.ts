import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { type ControlledTransaction, sql } from 'kysely'
import { isBusy } from '../base/sqlite-busy.ts'
import { connect, type DatabaseOptions, engineOf, withDialect } from './database.ts'
import type { Db, Schema } from './schema.ts'
import { sqliteDialect } from './sqlite.ts'

/** The rows as they were at one moment, for as long as they are held. */
export type RowSnapshot<T> = AsyncDisposable & { db: Db; found: T }

// Whoever writes waits for 5 s and then fails, so nobody is kept waiting for nearly that long.
const fenceMostMs = 2000
const fenceWaitMs = 15_000
const fencePauseMs = 2
const lockWait = '2s'

/**
 * Holds the rows of one moment, and at that moment lets nobody write to the journal of pushes or the list
 * of repositories until `look` has found what must belong to just these rows. `look` gets two seconds: then
 * its signal is aborted, and it should throw.
 */
export async function openRowSnapshot<T>(
  options: DatabaseOptions,
  look: (db: Db, signal: AbortSignal) => Promise<T>,
): Promise<RowSnapshot<T>> {
  await using opening = new AsyncDisposableStack()
  const pin = engineOf(options) === 'sqlite' ? pinSqlite : pinPostgres
  const { db, release } = await pin(options, opening)
  let found: T
  try {
    found = await look(db, AbortSignal.timeout(fenceMostMs))
  } finally {
    await release()
  }
  const held = opening.move()
  return { db, found, [Symbol.asyncDispose]: () => held.disposeAsync() }
}

type Pinned = { db: Db; release: () => Promise<void> | void }

async function pinSqlite(
  { dataDir }: DatabaseOptions,
  opening: AsyncDisposableStack,
): Promise<Pinned> {
  const path = join(dataDir, 'svc.db')
  const reader = withDialect(sqliteDialect(path, { transactions: 'read' }))
  opening.defer(() => reader.destroy())
  const fence = await fenceSqlite(path)
  try {
    const transaction = await reader.startTransaction().execute()
    opening.defer(() => end(transaction))
    await seeFirst(transaction)
    return { db: transaction, release: () => fence.close() }
  } catch (error) {
    fence.close()
    throw error
  }
}

// Whoever has begun to write is the only one who may: https://sqlite.org/lang_transaction.html
async function fenceSqlite(path: string): Promise<DatabaseSync> {
  const deadline = performance.now() + fenceWaitMs
  const fence = new DatabaseSync(path, { timeout: 0 })
  for (;;) {
    try {
      fence.exec('begin immediate')
      return fence
    } catch (error) {
      if (isBusy(error) && performance.now() < deadline) {
        await sleep(fencePauseMs)
        continue
      }
      fence.close()
      throw error
    }
  }
}

async function pinPostgres(
  options: DatabaseOptions,
  opening: AsyncDisposableStack,
): Promise<Pinned> {
  const pool = await connect(options)
  opening.defer(() => pool.destroy())
  const fence = await pool.startTransaction().execute()
  opening.defer(() => end(fence))
  await sql`set local lock_timeout = ${sql.lit(lockWait)}`.execute(fence)
  // In the order in which a deletion goes through them, so that neither waits for the other.
  await sql`lock table repositories, pushes in share mode`.execute(fence)
  const transaction = await pool
    .startTransaction()
    .setIsolationLevel('repeatable read')
    .setAccessMode('read only')
    .execute()
  opening.defer(() => end(transaction))
  await seeFirst(transaction)
  return { db: transaction, release: () => end(fence) }
}

// A transaction sees the rows of the moment of its first query.
async function seeFirst(db: Db): Promise<void> {
  await sql`select version from schema_version`.execute(db)
}

async function end(transaction: ControlledTransaction<Schema>): Promise<void> {
  if (!transaction.isRolledBack) await transaction.rollback().execute()
}
