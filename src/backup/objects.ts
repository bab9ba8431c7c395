import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { ignoreAbsence } from '../base/absence.ts'
import type { Directories } from '../repositories/directories.ts'
import type { BackupFolder } from './backup-folder.ts'
import { BackupError } from './manifest.ts'
import { openFile } from './tree.ts'

type Options = { directories: Directories; folder: BackupFolder; id: string }

const lookingsAtMost = 100

/**
 * Adds all objects of a repository that others use meanwhile: packs with their indexes, and what is loose.
 * Packs may be replaced by others, and the repository may move to the trash; so it is looked at until
 * there is nothing that was not added. Bitmaps and the like are left out, as git makes them anew.
 */
export async function addObjects({ directories, folder, id }: Options): Promise<void> {
  const added = new Set<string>()
  for (let looking = 1; looking <= lookingsAtMost; looking++) {
    const directory = await directories.locate(id)
    if (directory === undefined) break
    const present = await listObjectFiles(join(directory, 'objects'))
    // A list from before and after a move to the trash would not be whole; it moves no further than there.
    if ((await directories.locate(id)) !== directory) continue
    const isThere = new Set(present)
    const rest = present.filter((path) => !added.has(path))
    if (rest.length === 0) {
      const prefix = `repositories/${id}/`
      if (present.length === 0 && folder.formerHas(prefix)) throw lost(id)
      folder.leaveOut((path) => path.startsWith(prefix) && !isThere.has(path.slice(prefix.length)))
      return
    }
    for (const path of rest) {
      if (!(await addFile(folder, { id, directory, path }))) break
      added.add(path)
    }
  }
  throw new BackupError(
    `The repository ${id} goes or changes faster than it can be copied; try again.`,
  )
}

// The former backup may have what is not here any more: it must not go for that.
function lost(id: string): BackupError {
  return new BackupError(
    `All objects of the repository ${id} are lost. The former backup has them, and is as good as before: bring them back from it.`,
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

// A pack is there once its index is, which comes last. Loose objects are looked for first: one that is being
// packed is then seen in one place at least.
async function listObjectFiles(objects: string): Promise<string[]> {
  const loose: string[] = []
  for (const folder of await namesIn(objects)) {
    if (!/^[0-9a-f]{2}$/.test(folder)) continue
    const names = await namesIn(join(objects, folder))
    loose.push(
      ...names.filter((name) => /^[0-9a-f]{38}$/.test(name)).map((name) => `${folder}/${name}`),
    )
  }
  const packs = (await namesIn(join(objects, 'pack'))).filter((name) =>
    /^pack-[0-9a-f]{40}\.(pack|idx)$/.test(name),
  )
  const isThere = new Set(packs)
  const whole = packs.filter((name) =>
    ['.pack', '.idx'].every((type) => isThere.has(name.replace(/\.\w+$/, type))),
  )
  return [...loose, ...whole.map((name) => `pack/${name}`)]
}

async function namesIn(folder: string): Promise<string[]> {
  return (await readdir(folder).catch(ignoreAbsence)) ?? []
}
