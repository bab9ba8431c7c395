import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { access, chmod, mkdir, readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { sync, syncTree } from '../base/disk.ts'
import { isBusy } from '../base/sqlite-busy.ts'

/** A data directory that cannot be used; the message says what to do. */
export class DataDirectoryError extends Error {
  override readonly name = 'DataDirectoryError'
}

/** The key for secrets: made with the directory, and never again. */
export const encryptionKeyFile = 'encryption.key'
/** In a data directory while it is being restored; what is in it then may be no more than a part. */
export const restoringFile = 'restoring'
const keyBytes = 32
const lockPauseMs = 20

/** Makes the data directory on the first start, with its encryption key; later it is left as it is. */
export async function prepareDataDirectory(path: string): Promise<void> {
  await mkdir(path, { recursive: true, mode: 0o700 })
  const entries = await readdir(path)
  refuseHalfRestored(path, entries)
  if (entries.some((name) => name === 'svc.db' || name === 'repositories')) return
  await chmod(path, 0o700)
  if (entries.includes(encryptionKeyFile)) return
  // Made with a new directory and never again: a second key could not open what the first has sealed.
  const key = `${randomBytes(keyBytes).toString('base64')}\n`
  await writeFile(join(path, encryptionKeyFile), key, { mode: 0o600, flag: 'wx', flush: true })
}

/** Refuses a data directory in which no server has ever run: a mistyped path makes no new service. */
export async function assertDataDirectory(path: string): Promise<void> {
  refuseHalfRestored(path, await readdir(path).catch(() => []))
  await access(join(path, 'repositories')).catch((error) => {
    throw new DataDirectoryError(
      `There is no data directory at ${path}. Start the service once with \`svc serve\`, or set SVC_DATA_DIR.`,
      { cause: error },
    )
  })
}

function refuseHalfRestored(path: string, entries: string[]): void {
  if (!entries.includes(restoringFile)) return
  throw new DataDirectoryError(
    `A restore into ${path} is under way, or was cut short. If none is running, remove that folder and restore again; ` +
      'with SVC_DATABASE_URL, see that the database is empty, too.',
  )
}

/**
 * Makes a data directory for a restore, or takes an empty folder. Until the restore is finished nobody else
 * takes it for a data directory.
 */
export async function beginRestore(path: string): Promise<void> {
  await mkdir(path, { recursive: true, mode: 0o700 })
  const entries = await readdir(path)
  refuseHalfRestored(path, entries)
  // A fresh disk has that folder.
  if (entries.some((name) => name !== 'lost+found')) {
    throw new DataDirectoryError(
      `SVC_DATA_DIR: ${path} is not empty; a restore goes into a new folder.`,
    )
  }
  await writeFile(join(path, restoringFile), '', { mode: 0o600, flag: 'wx', flush: true })
  await chmod(path, 0o700)
  await sync(path)
}

/** Makes a restored data directory one that can be used. */
export async function endRestore(path: string): Promise<void> {
  await syncTree(path)
  await rm(join(path, restoringFile))
  await sync(path)
}

/** Removes all that a restore has put into a folder, which was empty before. */
export async function undoRestore(path: string): Promise<void> {
  const entries = await readdir(path)
  const others = entries.filter((name) => name !== restoringFile && name !== 'lost+found')
  for (const name of [...others, restoringFile])
    await rm(join(path, name), { recursive: true, force: true })
}

/** Takes a lock of the data directory, waiting up to a time. */
export async function lock(dataDir: string, name: LockName, waitMs: number): Promise<Disposable> {
  const taken = await holdLock(join(dataDir, `${name}.lock`), waitMs)
  if (taken) return taken
  throw new DataDirectoryError(refusals[name](dataDir))
}

type LockName = 'server' | 'repositories' | 'backup'

const refusals: Record<LockName, (dataDir: string) => string> = {
  server: (dataDir) =>
    `Another svc server is running on ${dataDir}; stop it, or the svc repos maintain that works in its place, or set SVC_DATA_DIR to another folder.`,
  repositories: (dataDir) => `Another svc command is changing ${dataDir}; try again.`,
  backup: (dataDir) => `Another backup of ${dataDir} is under way; try again when it has ended.`,
}

/** Whether somebody has a lock of the data directory just now. */
export function isLocked(dataDir: string, name: LockName): boolean {
  return isHeld(join(dataDir, `${name}.lock`))
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

/** Whether a text is a key to encrypt with, in base64 or hex. */
export function isEncryptionKey(text: string): boolean {
  const key = text.trim()
  const isHex = new RegExp(`^[0-9a-fA-F]{${2 * keyBytes}}$`).test(key)
  const isBase64 = /^[A-Za-z0-9+/]+={0,2}$/.test(key)
  return isHex || (isBase64 && Buffer.from(key, 'base64').length === keyBytes)
}
