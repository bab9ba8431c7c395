import { mkdir, readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { ignoreAbsence } from '#base/absence.ts'
import { newId } from '#base/ids.ts'
import { isObjectId } from '#base/object-id.ts'
import type { Db } from '#database/schema.ts'
import type { Directories } from '#repositories/directories/directories.ts'
import type { SharedChanges } from '#repositories/store/store.ts'
import type { BackupFolder } from './backup-folder.ts'
import { BackupError } from './manifest.ts'
import { openFile } from './tree.ts'

type Options = { directories: Pick<Directories, 'locate'>; folder: BackupFolder; id: string }

const maxPasses = 100

/**
 * Adds all objects of a repository that may be in use: packs with their indexes, and loose objects. Packs may
 * be replaced and the repository may be deleted, restored or purged in the meantime, so this repeats until nothing is new.
 * Leaves out files that git can create again, such as bitmaps.
 */
export async function addObjects({ directories, folder, id }: Options): Promise<void> {
  const added = new Set<string>()
  for (let pass = 1; pass <= maxPasses; pass++) {
    const directory = await directories.locate(id)
    if (directory === undefined) break
    const since = await placedSince(directory)
    const present = await listObjectFiles(join(directory, 'objects'))
    // A list that was read during a move may be incomplete, also when it was moved back.
    if ((await directories.locate(id)) !== directory) continue
    if ((await placedSince(directory)) !== since) continue
    const presentFiles = new Set(present)
    const rest = present.filter((path) => !added.has(path))
    if (rest.length === 0) {
      const prefix = `repositories/${id}/`
      if (present.length === 0 && folder.previousHas(prefix)) throw lost(id)
      folder.leaveOut(
        (path) => path.startsWith(prefix) && !presentFiles.has(path.slice(prefix.length)),
      )
      return
    }
    for (const path of rest) {
      if (!(await addFile(folder, { id, directory, path }))) break
      added.add(path)
    }
  }
  throw new BackupError(
    `The repository ${id} was deleted or changes faster than it can be copied; try again.`,
  )
}

/** When a directory was moved to its place, or changed there. */
async function placedSince(directory: string): Promise<bigint | undefined> {
  return (await stat(directory, { bigint: true }).catch(ignoreAbsence))?.ctimeNs
}

// The previous backup must not be replaced, as it may be the only copy.
function lost(id: string): BackupError {
  return new BackupError(
    `All objects of the repository ${id} are lost. The previous backup has them and was not changed: restore them from it.`,
  )
}

type ObjectFile = { id: string; directory: string; path: string }

async function addFile(folder: BackupFolder, { id, directory, path }: ObjectFile) {
  const file = await openFile(join(directory, 'objects', path)).catch(ignoreAbsence)
  if (!file) return false
  await using _closed = file
  await folder.add(`repositories/${id}/${path}`, file)
  return true
}

// Git writes the index of a pack last, so only a pack with an index is complete. Loose objects are listed first,
// so that an object that is being packed is listed at least once.
async function listObjectFiles(objects: string): Promise<string[]> {
  const loose: string[] = []
  for (const folder of await namesIn(objects)) {
    if (!/^[0-9a-f]{2}$/.test(folder)) continue
    const names = await namesIn(join(objects, folder))
    loose.push(
      ...names.filter((name) => isObjectId(folder + name)).map((name) => `${folder}/${name}`),
    )
  }
  const packs = (await namesIn(join(objects, 'pack'))).filter((name) =>
    /^pack-[0-9a-f]{40,64}\.(pack|idx)$/.test(name),
  )
  const presentFiles = new Set(packs)
  const complete = packs.filter((name) =>
    ['.pack', '.idx'].every((type) => presentFiles.has(name.replace(/\.\w+$/, type))),
  )
  return [...loose, ...complete.map((name) => `pack/${name}`)]
}

async function namesIn(folder: string): Promise<string[]> {
  return (await readdir(folder).catch(ignoreAbsence)) ?? []
}

type SharedOptions = {
  shared: Pick<SharedChanges, 'copyPacks'>
  directories: Pick<Directories, 'draftOf' | 'hold' | 'discard'>
  folder: BackupFolder
}

/**
 * Adds the packs that a repository has in a snapshot of a shared store, by way of a temporary directory with these
 * packs only.
 */
export async function addSharedObjects(
  { shared, directories, folder }: SharedOptions,
  snapshot: Db,
  id: string,
): Promise<void> {
  const draft = newId()
  using _held = await directories.hold(draft)
  const directory = directories.draftOf(draft)
  const packs = join(directory, 'objects', 'pack')
  await mkdir(packs, { recursive: true, mode: 0o700 })
  try {
    await shared.copyPacks(snapshot, id, packs)
    await addObjects({ directories: { locate: async () => directory }, folder, id })
  } finally {
    await directories.discard(draft)
  }
}
