import { existsSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { isBusy } from './sqlite-busy.ts'

const retryIntervalMs = 20

/**
 * Acquires a lock file, waiting up to `waitMs`; undefined when another process holds it. The lock is the operating
 * system's (taken through SQLite), so it ends with the process in any case. The file stays.
 */
export async function holdLock(path: string, waitMs = 0): Promise<Disposable | undefined> {
  const deadline = performance.now() + waitMs
  for (;;) {
    const file = new DatabaseSync(path, { timeout: 0 })
    try {
      // Without a journal file the lock can be acquired on a full disk.
      file.exec('pragma locking_mode = exclusive; pragma journal_mode = memory; begin exclusive')
      return { [Symbol.dispose]: () => file.close() }
    } catch (error) {
      file.close()
      if (!isBusy(error)) throw error
    }
    if (performance.now() >= deadline) return undefined
    await sleep(retryIntervalMs)
  }
}

/**
 * Whether a process holds a lock file. The check takes a shared lock for an instant, in which `holdLock` of another
 * process has to wait.
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
