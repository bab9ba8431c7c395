import { existsSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { isBusy } from './sqlite-busy.ts'

const lockPauseMs = 20

/**
 * Takes a lock file, waiting up to a time; undefined when somebody else has it. The lock is the operating
 * system's (by way of an SQLite file), so it ends with the process, however that ends. The file stays.
 */
export async function holdLock(path: string, waitMs = 0): Promise<Disposable | undefined> {
  const deadline = performance.now() + waitMs
  for (;;) {
    const file = new DatabaseSync(path, { timeout: 0 })
    try {
      // Without a journal it takes no room, so that it can be had on a full disk.
      file.exec('pragma locking_mode = exclusive; pragma journal_mode = memory; begin exclusive')
      return { [Symbol.dispose]: () => file.close() }
    } catch (error) {
      file.close()
      if (!isBusy(error)) throw error
    }
    if (performance.now() >= deadline) return undefined
    await sleep(lockPauseMs)
  }
}

/**
 * Whether somebody holds a lock file. It is only read, and for no longer than a moment, in which whoever
 * wants the lock has to wait.
 */
export function isHeld(path: string): boolean {
  if (!existsSync(path)) return false
  const file = new DatabaseSync(path, { readOnly: true, timeout: 0 })
  try {
    file.prepare('select count(*) from sqlite_schema').get()
    return false
  } catch (error) {
    if (isBusy(error)) return true
    throw error
  } finally {
    file.close()
  }
}
