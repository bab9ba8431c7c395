import { lstat, mkdir, readdir, realpath } from 'node:fs/promises'
import { dirname, join, resolve, sep } from 'node:path'
import { ignoreAbsence } from '../base/absence.ts'
import { holdLock } from '../base/lock-file.ts'
import {
  BackupError,
  lockFile,
  lockFiles,
  type Manifest,
  manifestFile,
  readManifest,
} from './manifest.ts'
import { openFile } from './tree.ts'

// A manifest has a line for each file, so this is enough for millions of them.
const manifestMaxBytes = 1024 ** 3
// https://sqlite.org/rescode.html: a disk that is read-only, as one from which a backup is restored may be.
const unwritable = new Set<unknown>([8, 14])
const ourNames = new Set([
  ...['rows', 'refs', 'keys', 'repositories'],
  ...[...lockFiles, manifestFile, `${manifestFile}.new`, 'lost+found'],
])

/** Refuses a folder for backups that would hold the data directory, or be held by it. */
export async function refuseNested(folder: string, dataDir: string): Promise<void> {
  const [a, b] = [await realPathOf(folder), await realPathOf(dataDir)]
  if (!`${a}${sep}`.startsWith(`${b}${sep}`) && !`${b}${sep}`.startsWith(`${a}${sep}`)) return
  throw new BackupError(
    `${folder} and the data directory ${dataDir} are one within the other; a backup belongs elsewhere, best on another disk.`,
  )
}

/** Makes a folder for backups, or takes one that holds backups or nothing. */
export async function takeFolder(folder: string): Promise<Disposable> {
  await mkdir(folder, { recursive: true, mode: 0o700 }).catch(unusable(folder))
  const names = await readdir(folder).catch(unusable(folder))
  const isOurs = names.includes(manifestFile) || names.includes(lockFile)
  const isEmpty = names.every((name) => name === 'lost+found')
  if (
    !isEmpty &&
    !(isOurs && (names.includes(manifestFile) || names.every((name) => ourNames.has(name))))
  ) {
    throw new BackupError(`${folder} is not empty and holds no backup of svc; name another folder.`)
  }
  return lockFolder(folder)
}

/** Keeps others from working on a folder of backups. */
export async function lockFolder(folder: string): Promise<Disposable> {
  // SQLite would follow a link, and act on what a database and its journal say.
  const found = await lstat(join(folder, lockFile)).catch(ignoreAbsence)
  if (found && !(found.isFile() && found.size === 0)) {
    throw new BackupError(
      `${join(folder, lockFile)} is not the empty file that svc makes; remove it.`,
    )
  }
  const taken = await holdLock(join(folder, lockFile)).catch((error) => {
    if (unwritable.has(error.errcode)) return { [Symbol.dispose]: () => {} }
    throw error
  })
  if (taken) return taken
  throw new BackupError(`Another svc command is at work on ${folder}; try again when it has ended.`)
}

/** The manifest of a folder; undefined when there is none. Throws a BackupError for one that is of no use. */
export async function findManifest(folder: string): Promise<Manifest | undefined> {
  const path = join(folder, manifestFile)
  try {
    await using file = await openFile(path)
    const { size } = await file.stat()
    if (size > manifestMaxBytes) throw new BackupError(`${path} is too large to be a manifest.`)
    return readManifest(await file.readFile())
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined
    if (code === 'ELOOP') throw new BackupError(`${path} is a link; svc makes none.`)
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

// What is not there yet will be where its folder is.
async function realPathOf(path: string): Promise<string> {
  const full = resolve(path)
  return realpath(full).catch(async (error) => {
    if (error.code !== 'ENOENT' || dirname(full) === full) throw error
    return join(await realPathOf(dirname(full)), full.slice(dirname(full).length))
  })
}
