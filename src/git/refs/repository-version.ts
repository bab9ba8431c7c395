import { type Dirent, readdirSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { isAbsence } from '../../base/absence.ts'
import { type Fingerprint, readFingerprint } from './file-fingerprint.ts'

// The file whose times tell when objects were last put in order, and those taken away that nothing leads to.
const prunedFile = 'svc-pruned'
const tagFoldersMost = 64
const rememberedMost = 1000

type Tags = { looks: string; folders: string[] }

/** What an answer depends on, beside the repository and the objects that it names. */
export type Parts = {
  /** Which objects there are. */
  objects: boolean
  /** What the tags lead to. */
  tags: boolean
}

/**
 * Tells states of a repository apart by its files, whoever changed them: its stamp never comes again once something
 * has changed that it is asked for, or once objects were pruned. Undefined where that cannot be told, as a moment
 * after a change.
 */
export function createRepositoryVersions() {
  const remembered = new Map<string, Tags>()

  function looksAt(
    directory: string,
    { objects, tags }: Parts,
  ): (Fingerprint | undefined)[] | undefined {
    const looks = [
      readFingerprint(join(directory, prunedFile)),
      readFingerprint(join(directory, 'shallow')),
      ...(objects ? [readFingerprint(join(directory, 'objects', 'pack'))] : []),
    ]
    if (!tags) return looks
    const folders = tagFolders(directory)
    if (!folders) return undefined
    // Loose before packed: a tag that is being packed is then seen in one place at least.
    return [
      ...looks,
      ...folders.map(readFingerprint),
      readFingerprint(join(directory, 'packed-refs')),
    ]
  }

  /** The folders that tags are in. As long as none of them changes, there are no others. */
  function tagFolders(directory: string): string[] | undefined {
    const root = join(directory, 'refs', 'tags')
    const before = remembered.get(root)
    if (before && textOf(before.folders.map(readFingerprint)) === before.looks)
      return before.folders
    remembered.delete(root)
    const folders = foldersIn(root, tagFoldersMost)
    if (folders.length > tagFoldersMost) return undefined
    const text = textOf(folders.map(readFingerprint))
    if (text === undefined) return folders
    remembered.set(root, { looks: text, folders })
    const [oldest] = remembered.keys()
    if (remembered.size > rememberedMost && oldest !== undefined) remembered.delete(oldest)
    return folders
  }

  return {
    stamp(directory: string, parts: Parts): string | undefined {
      const place = readFingerprint(directory)
      const looks = place && looksAt(directory, parts)
      const text = looks && textOf(looks)
      return text === undefined ? undefined : `${place?.ino} ${text}`
    },
  }
}

/** Has all stamps of a repository differ from those before: its objects are about to be put in order, or some taken away, or were. */
export async function renewRepositoryVersion(directory: string): Promise<void> {
  await using file = await open(join(directory, prunedFile), 'a')
  const now = new Date()
  await file.utimes(now, now)
}

/** What says how files look; undefined where that may be how they look after a change, too. */
function textOf(looks: (Fingerprint | undefined)[]): string | undefined {
  if (looks.some((look) => look?.isSettled === false)) return undefined
  return looks
    .map((look) => (look ? `${look.ino}.${look.size}.${look.mtimeMs}.${look.ctimeMs}` : '-'))
    .join(' ')
}

/** A folder and those below it; more than so many are not looked for. */
function foldersIn(root: string, most: number): string[] {
  const folders = [root]
  for (const folder of folders) {
    if (folders.length > most) break
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
    // Git removes folders in which there are no tags any more.
    if (isAbsence(error)) return []
    throw error
  }
}
