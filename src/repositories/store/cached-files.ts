import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { isAbsence } from '#base/absence.ts'
import { type Fingerprint, isUnchanged, readFingerprint } from '#base/file-fingerprint.ts'
import { hasPack } from './pack-files.ts'

/** The fingerprints of the folders that change when a file of a cached directory is removed. */
export type CachedFolders = { top: Fingerprint | undefined; packs: Fingerprint | undefined }

/** Without these, a directory is no repository for git. */
const requiredNames = ['HEAD', 'config', 'objects', 'refs']

export function readFolders(directory: string): CachedFolders {
  return {
    top: readFingerprint(directory),
    packs: readFingerprint(join(directory, 'objects', 'pack')),
  }
}

/** Whether no file can have been removed between two reads. */
export function areUnchanged(before: CachedFolders | undefined, now: CachedFolders): boolean {
  return (
    before !== undefined && isUnchanged(before.top, now.top) && isUnchanged(before.packs, now.packs)
  )
}

/** Whether a directory is a repository for git, with a folder for packs. */
export function isRepository(directory: string): boolean {
  const names = namesIn(directory)
  return (
    requiredNames.every((name) => names.has(name)) && readFolders(directory).packs !== undefined
  )
}

/** Whether a directory has refs, and packs by their checksums. */
export function hasFiles(directory: string, packs: ReadonlySet<string>): boolean {
  if (!isRepository(directory) || readFingerprint(join(directory, 'packed-refs')) === undefined)
    return false
  const names = namesIn(join(directory, 'objects', 'pack'))
  return [...packs].every((hash) => hasPack(names, hash))
}

function namesIn(folder: string): ReadonlySet<string> {
  try {
    return new Set(readdirSync(folder))
  } catch (error) {
    if (isAbsence(error)) return new Set()
    throw error
  }
}
