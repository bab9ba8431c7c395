import { type Dirent, readdirSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { LRUCache } from 'lru-cache'
import { isAbsence } from '#base/absence.ts'
import { type Fingerprint, readFingerprint } from '#base/file-fingerprint.ts'

// Its timestamps are those of the last repack or prune.
const prunedFile = 'svc-pruned'
const maxTagFolders = 64
const maxCached = 1000

type Tags = { fingerprints: string; folders: string[] }

/** What a response depends on, besides the repository and the objects that the request names. */
export type Parts = {
  /** The set of objects. */
  objects: boolean
  /** The values of tags. */
  tags: boolean
}

/**
 * Computes versions of repositories from the fingerprints of their files. A version never recurs after a change of the
 * given parts, by any process, or after objects were pruned. It is undefined when files changed too recently.
 */
export function createRepositoryVersions() {
  const cached = new LRUCache<string, Tags>({ max: maxCached })

  function fingerprintsOf(
    directory: string,
    { objects, tags }: Parts,
  ): (Fingerprint | undefined)[] | undefined {
    const fingerprints = [
      readFingerprint(join(directory, prunedFile)),
      readFingerprint(join(directory, 'shallow')),
      ...(objects ? [readFingerprint(join(directory, 'objects', 'pack'))] : []),
    ]
    if (!tags) return fingerprints
    const folders = tagFolders(directory)
    if (!folders) return undefined
    // Loose before packed, so that a tag that is being packed meanwhile is not missed.
    return [
      ...fingerprints,
      ...folders.map(readFingerprint),
      readFingerprint(join(directory, 'packed-refs')),
    ]
  }

  /** Returns the folders with tags, cached until one of them changes. */
  function tagFolders(directory: string): string[] | undefined {
    const root = join(directory, 'refs', 'tags')
    const before = cached.get(root)
    if (before && textOf(before.folders.map(readFingerprint)) === before.fingerprints)
      return before.folders
    cached.delete(root)
    const folders = foldersIn(root, maxTagFolders)
    if (folders.length > maxTagFolders) return undefined
    const text = textOf(folders.map(readFingerprint))
    if (text === undefined) return folders
    cached.set(root, { fingerprints: text, folders })
    return folders
  }

  return {
    stamp(directory: string, parts: Parts): string | undefined {
      const place = readFingerprint(directory)
      const fingerprints = place && fingerprintsOf(directory, parts)
      const text = fingerprints && textOf(fingerprints)
      return text === undefined ? undefined : `${place?.ino} ${text}`
    },
  }
}

/** Changes all versions of a repository: call it before and after objects are repacked or pruned. */
export async function renewRepositoryVersion(directory: string): Promise<void> {
  await using file = await open(join(directory, prunedFile), 'a')
  const now = new Date()
  await file.utimes(now, now)
}

/** Encodes fingerprints as text; undefined when one is unsettled. */
function textOf(fingerprints: (Fingerprint | undefined)[]): string | undefined {
  if (fingerprints.some((fingerprint) => fingerprint?.isSettled === false)) return undefined
  return fingerprints
    .map((fingerprint) =>
      fingerprint
        ? `${fingerprint.ino}.${fingerprint.size}.${fingerprint.mtimeMs}.${fingerprint.ctimeMs}`
        : '-',
    )
    .join(' ')
}

/** Lists a folder and its subfolders, and stops after more than `maxFolders`. */
function foldersIn(root: string, maxFolders: number): string[] {
  const folders = [root]
  for (const folder of folders) {
    if (folders.length > maxFolders) break
    for (const entry of entriesOf(folder)) {
      if (entry.isDirectory()) folders.push(join(folder, entry.name))
    }
  }
  return folders
}

function entriesOf(folder: string): Dirent[] {
  try {
    return readdirSync(folder, { withFileTypes: true })
  } catch (error) {
    // Git removes folders without tags.
    if (isAbsence(error)) return []
    throw error
  }
}
