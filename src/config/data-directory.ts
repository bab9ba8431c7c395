import { randomBytes } from 'node:crypto'
import { access, chmod, mkdir, readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { sync, syncTree } from '../base/disk.ts'
import { holdLock, isHeld } from '../base/lock-file.ts'
import { encryptionKeyBytes } from './setting-values.ts'

/** A data directory that cannot be used; the message says what to do. */
export class DataDirectoryError extends Error {
  override readonly name = 'DataDirectoryError'
}

/** The key for secrets: made with the directory, and never again. */
export const encryptionKeyFile = 'encryption.key'
/** The first admin token, where the first start had no terminal to print it to. */
export const adminTokenFile = 'admin-token'
/** In a data directory while it is being restored; what is in it then may be no more than a part. */
export const restoringFile = 'restoring'

/** Makes the data directory on the first start, with its encryption key; later it is left as it is. */
export async function prepareDataDirectory(path: string): Promise<void> {
  await mkdir(path, { recursive: true, mode: 0o700 })
  const entries = await readdir(path)
  refuseHalfRestored(path, entries)
  if (entries.some((name) => name === 'svc.db' || name === 'repositories')) return
  await chmod(path, 0o700)
  if (entries.includes(encryptionKeyFile)) return
  // Made with a new directory and never again: a second key could not open what the first has sealed.
  const key = `${randomBytes(encryptionKeyBytes).toString('base64')}\n`
  await writeFile(join(path, encryptionKeyFile), key, { mode: 0o600, flag: 'wx', flush: true })
}

/** Writes the first admin token to a file that only its owner can read; its path. */
export async function writeAdminToken(dataDir: string, token: string): Promise<string> {
  const path = join(dataDir, adminTokenFile)
  // What may be there already keeps no mode and no link of its own.
  await rm(path, { force: true })
  await writeFile(path, `${token}\n`, { mode: 0o600, flag: 'wx', flush: true })
  return path
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

// Whoever only looks whether a server runs holds the lock for less than this: see isHeld.
const serverLockWaitMs = 100

/** Takes the lock that a server holds for as long as it runs. */
export function lockServer(dataDir: string): Promise<Disposable> {
  return lock(dataDir, 'server', serverLockWaitMs)
}

/** Whether somebody has a lock of the data directory just now. */
export function isLocked(dataDir: string, name: LockName): boolean {
  return isHeld(join(dataDir, `${name}.lock`))
}
