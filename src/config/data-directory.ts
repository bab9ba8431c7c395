import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { access, chmod, mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'

/** A data directory that cannot be used; the message says what to do. */
export class DataDirectoryError extends Error {
  override readonly name = 'DataDirectoryError'
}

/** The key for secrets: made with the directory, and never again. */
export const encryptionKeyFile = 'encryption.key'
const keyBytes = 32
const lockPauseMs = 20
// https://sqlite.org/rescode.html#busy
const sqliteBusy = 5

/** Makes the data directory on the first start, with its encryption key; later it is left as it is. */
export async function prepareDataDirectory(path: string): Promise<void> {
  await mkdir(path, { recursive: true, mode: 0o700 })
  const entries = await readdir(path)
  if (entries.some((name) => name === 'svc.db' || name === 'repositories')) return
  await chmod(path, 0o700)
  if (entries.includes(encryptionKeyFile)) return
  // Made with a new directory and never again: a second key could not open what the first has sealed.
  const key = `${randomBytes(keyBytes).toString('base64')}\n`
  await writeFile(join(path, encryptionKeyFile), key, { mode: 0o600, flag: 'wx', flush: true })
}

/** Refuses a data directory in which no server has ever run: a mistyped path makes no new service. */
export async function assertDataDirectory(path: string): Promise<void> {
  await access(join(path, 'repositories')).catch((error) => {
    throw new DataDirectoryError(
      `There is no data directory at ${path}. Start the service once with \`svc serve\`, or set SVC_DATA_DIR.`,
      { cause: error },
    )
  })
}

/** Takes a lock of the data directory, waiting up to a time. */
export async function lock(
  dataDir: string,
  name: 'server' | 'repositories',
  waitMs: number,
): Promise<Disposable> {
  const taken = await holdLock(join(dataDir, `${name}.lock`), waitMs)
  if (taken) return taken
  throw new DataDirectoryError(
    name === 'server'
      ? `Another svc server is running on ${dataDir}; stop it, or the svc repos maintain that works in its place, or set SVC_DATA_DIR to another folder.`
      : `Another svc command is changing ${dataDir}; try again.`,
  )
}

/**
 * Takes a lock file, waiting up to a time; undefined when somebody else has it. The lock is the operating
 * system's (by way of an SQLite file), so it ends with the process, however that ends. The file stays.
 */
export async function holdLock(path: string, waitMs = 0): Promise<Disposable | undefined> {
  const deadline = performance.now() + waitMs
  for (;;) {
    const file = new DatabaseSync(path, { timeout: 0 })
    try {
      file.exec('pragma locking_mode = exclusive; begin exclusive')
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

function isBusy(error: unknown): boolean {
  return error instanceof Error && 'errcode' in error && error.errcode === sqliteBusy
}

/** Whether a text is a key to encrypt with, in base64 or hex. */
export function isEncryptionKey(text: string): boolean {
  const key = text.trim()
  const isHex = new RegExp(`^[0-9a-fA-F]{${2 * keyBytes}}$`).test(key)
  const isBase64 = /^[A-Za-z0-9+/]+={0,2}$/.test(key)
  return isHex || (isBase64 && Buffer.from(key, 'base64').length === keyBytes)
}
