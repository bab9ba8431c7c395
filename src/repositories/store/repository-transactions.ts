import { createKeyedMutex } from '#base/concurrency/keyed-mutex.ts'
import { databaseBusy } from '#base/problem.ts'
import type { Database } from '#database/database.ts'
import type { Db } from '#database/schema.ts'

/** Runs a transaction that locks the row of a repository. */
export type RepositoryTransaction = <T>(id: string, work: (tx: Db) => Promise<T>) => Promise<T>

// Others may each wait for a lock of another node until PostgreSQL ends their statement.
const patienceMs = 60_000

/**
 * Runs the transactions of this node that lock a repository one after another. They would wait for its row anyway, each
 * with a connection that other requests need. Throws `database_unavailable` after too long a wait.
 */
export function createRepositoryTransaction(db: Database): RepositoryTransaction {
  const serialize = createKeyedMutex()
  return (id, work) => {
    const deadline = performance.now() + patienceMs
    return serialize(id, () => {
      if (performance.now() > deadline) throw databaseBusy()
      return db.transaction().execute(work)
    })
  }
}
