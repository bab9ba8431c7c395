import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { newId } from '#base/ids.ts'
import type { Db } from '#database/schema.ts'
import type { Directories } from '#repositories/directories/directories.ts'
import type { SharedChanges } from '#repositories/store/store.ts'
import type { BackupFolder } from './backup-folder.ts'
import { addObjects } from './objects.ts'

type Options = {
  shared: Pick<SharedChanges, 'copyPacks'>
  directories: Pick<Directories, 'draftOf' | 'hold' | 'discard'>
  folder: BackupFolder
}

/** Adds the packs that a repository has in a snapshot of a shared store, from a directory that has only these. */
export async function addSharedObjects(
  { shared, directories, folder }: Options,
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
