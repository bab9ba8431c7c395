import { randomBytes } from 'node:crypto'
import { chmod, mkdir, readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { sync, syncTree } from '#base/disk.ts'
import { holdLock, isHeld } from '#base/lock-file.ts'
import { encryptionKeyBytes } from './setting-values.ts'

/** A data directory that cannot be used; the message says how to fix it. */
export class DataDirectoryError extends Error {
  override readonly name = 'DataDirectoryError'
}

/** The encryption key for secrets, created only with a new data directory. */
export const encryptionKeyFile = 'encryption.key'
/** The host key of SSH, unless a setting names another file. */
export const hostKeyFile = 'ssh_host_ed25519_key'
/** Holds the first admin token when the first start had no terminal to print it to. */
export const adminTokenFile = 'admin-token'
/** Marks a data directory as incomplete: a restore into it is running or was interrupted. */
export const restoringFile = 'restoring'

/** Creates the data directory and its encryption key on the first start; does nothing later. */
export async function prepareDataDirectory(path: string): Promise<void> {
  await mkdir(path, { recursive: true, mode: 0o700 })
  const entries = await readdir(path)
  assertNotRestoring(path, entries)
  if (entries.some((name) => ['svc.db', 'repositories', 'cache'].includes(name))) return
  await chmod(path, 0o700)
  if (entries.includes(encryptionKeyFile)) return
  // Only for a new directory: a second key could not decrypt what the first encrypted.
  const key = `${randomBytes(encryptionKeyBytes).toString('base64')}\n`
  await writeFile(join(path, encryptionKeyFile), key, { mode: 0o600, flag: 'wx', flush: true })
}

/** Writes the first admin token to a file that only its owner can read, and returns the path. */
export async function writeAdminToken(dataDir: string, token: string): Promise<string> {
  const path = join(dataDir, adminTokenFile)
  // Removed first, so that neither the mode nor a link of an existing file is kept.
  await rm(path, { force: true })
  await writeFile(path, `${token}\n`, { mode: 0o600, flag: 'wx', flush: true })
  return path
}

/** Throws unless a server has run in this data directory, so that a mistyped path creates no new service. */
export async function assertDataDirectory(path: string): Promise<void> {
  const entries = await readdir(path).catch((): string[] => [])
  assertNotRestoring(path, entries)
  if (entries.includes('repositories') || entries.includes('cache')) return
  throw new DataDirectoryError(
    `There is no data directory at ${path}. Start the service once with \`svc serve\`, set SVC_DATA_DIR to an existing one, or log in to a server: svc login URL`,
  )
}

function assertNotRestoring(path: string, entries: string[]): void {
  if (!entries.includes(restoringFile)) return
  throw new DataDirectoryError(
    `A restore into ${path} is running or was interrupted. If none is running, remove that directory and restore again; ` +
      'with SVC_DATABASE_URL, empty that database first.',
  )
}

/**
 * Creates a data directory for a restore, or uses an empty one. Until the restore ends, no other command
 * accepts it as a data directory.
 */
export async function beginRestore(path: string): Promise<void> {
  await mkdir(path, { recursive: true, mode: 0o700 })
  const entries = await readdir(path)
  assertNotRestoring(path, entries)
  // mke2fs(8) creates lost+found at the top of each file system.
  if (entries.some((name) => name !== 'lost+found')) {
    throw new DataDirectoryError(
      `SVC_DATA_DIR: ${path} is not empty; restore into a new or empty directory.`,
    )
  }
  await writeFile(join(path, restoringFile), '', { mode: 0o600, flag: 'wx', flush: true })
  await chmod(path, 0o700)
  await sync(path)
}

/** Syncs a restored data directory to the disk and removes its mark. */
export async function endRestore(path: string): Promise<void> {
  await syncTree(path)
  await rm(join(path, restoringFile))
  await sync(path)
}

/** Removes everything that a failed restore created in the directory, the mark last. */
export async function undoRestore(path: string): Promise<void> {
  const entries = await readdir(path)
  const others = entries.filter((name) => name !== restoringFile && name !== 'lost+found')
  for (const name of [...others, restoringFile])
    await rm(join(path, name), { recursive: true, force: true })
}

/** Acquires a lock of the data directory, waiting up to `waitMs`. */
export async function lock(dataDir: string, name: LockName, waitMs: number): Promise<Disposable> {
  const held = await holdLock(join(dataDir, `${name}.lock`), waitMs)
  if (held) return held
  throw new DataDirectoryError(busyMessages[name](dataDir))
}

type LockName = 'server' | 'repositories' | 'backup'

const busyMessages: Record<LockName, (dataDir: string) => string> = {
  server: (dataDir) =>
    `Another svc server is running on ${dataDir}; stop it (or \`svc repos maintain\`, if that runs), or set SVC_DATA_DIR to another directory.`,
  repositories: (dataDir) => `Another svc command is changing ${dataDir}; try again.`,
  backup: (dataDir) => `Another backup of ${dataDir} is running; try again when it has ended.`,
}

// Longer than a mere check holds the lock: see isHeld.
const serverLockWaitMs = 100

/** Acquires the lock that a server holds for as long as it runs. */
export function lockServer(dataDir: string): Promise<Disposable> {
  return lock(dataDir, 'server', serverLockWaitMs)
}

/** Prevents a command from migrating the tables of a running server. */
export function assertNotServed(dataDir: string): void {
  if (!isLocked(dataDir, 'server')) return
  throw new DataDirectoryError(
    `it has the tables of an older svc, whose server is running on ${dataDir}; restart the server with this version, which migrates them.`,
  )
}

/** Whether a process holds a lock of the data directory at this moment. */
export function isLocked(dataDir: string, name: LockName): boolean {
  return isHeld(join(dataDir, `${name}.lock`))
}
