import { lstat, mkdir, readdir, realpath } from 'node:fs/promises'
import { dirname, join, resolve, sep } from 'node:path'
import { ignoreAbsence } from '#base/absence.ts'
import { holdLock } from '#base/lock-file.ts'
import {
  BackupError,
  lockFile,
  lockFiles,
  type Manifest,
  manifestFile,
  readManifest,
} from './manifest.ts'
import { openFile } from './tree.ts'

// Enough for millions of files: a manifest has a few lines per file.
const maxManifestBytes = 1024 ** 3
// https://sqlite.org/rescode.html: a read-only disk, from which a backup can still be restored.
const unwritable = new Set<unknown>([8, 14])
const knownNames = new Set([
  ...['rows', 'refs', 'keys', 'repositories'],
  ...[...lockFiles, manifestFile, `${manifestFile}.new`, 'lost+found'],
])

/** Throws if the backup folder contains the data directory, or the other way round. */
export async function refuseNested(folder: string, dataDir: string): Promise<void> {
  const [a, b] = [await realPathOf(folder), await realPathOf(dataDir)]
  if (!`${a}${sep}`.startsWith(`${b}${sep}`) && !`${b}${sep}`.startsWith(`${a}${sep}`)) return
  throw new BackupError(
    `${folder} and the data directory ${dataDir} contain one another; use another folder, best on another disk.`,
  )
}

/** Creates a folder for backups, or uses one that is empty or holds a backup; locks it until disposed. */
export async function acquireFolder(folder: string): Promise<Disposable> {
  await mkdir(folder, { recursive: true, mode: 0o700 }).catch(unusable(folder))
  const names = await readdir(folder).catch(unusable(folder))
  const isBackupFolder = names.includes(manifestFile) || names.includes(lockFile)
  const isEmpty = names.every((name) => name === 'lost+found')
  if (
    !isEmpty &&
    !(
      isBackupFolder &&
      (names.includes(manifestFile) || names.every((name) => knownNames.has(name)))
    )
  ) {
    throw new BackupError(
      `${folder} is not empty and holds no backup of svc; choose another folder.`,
    )
  }
  return lockFolder(folder)
}

/** Locks a folder of backups until disposed. A read-only folder needs no lock. */
export async function lockFolder(folder: string): Promise<Disposable> {
  // SQLite would follow a link, and would replay the journal of a database.
  const stats = await lstat(join(folder, lockFile)).catch(ignoreAbsence)
  if (stats && !(stats.isFile() && stats.size === 0)) {
    throw new BackupError(
      `${join(folder, lockFile)} is not the empty file that svc creates; remove it.`,
    )
  }
  const held = await holdLock(join(folder, lockFile)).catch((error) => {
    if (unwritable.has(error.errcode)) return { [Symbol.dispose]: () => {} }
    throw error
  })
  if (held) return held
  throw new BackupError(`Another svc command is using ${folder}; try again when it has ended.`)
}

/** Reads the manifest of a folder; undefined when there is none. Throws a BackupError for an invalid one. */
export async function findManifest(folder: string): Promise<Manifest | undefined> {
  const path = join(folder, manifestFile)
  try {
    await using file = await openFile(path)
    const { size } = await file.stat()
    if (size > maxManifestBytes) throw new BackupError(`${path} is too large to be a manifest.`)
    return readManifest(await file.readFile())
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined
    if (code === 'ELOOP') throw new BackupError(`${path} is a link; svc creates no links.`)
    throw error
  }
}

function unusable(folder: string): (error: NodeJS.ErrnoException) => never {
  return (error) => {
    throw new BackupError(`${folder} cannot be used for backups: ${error.message}`, {
      cause: error,
    })
  }
}

// A path that does not exist is resolved by its parent.
async function realPathOf(path: string): Promise<string> {
  const full = resolve(path)
  return realpath(full).catch(async (error) => {
    if (error.code !== 'ENOENT' || dirname(full) === full) throw error
    return join(await realPathOf(dirname(full)), full.slice(dirname(full).length))
  })
}
