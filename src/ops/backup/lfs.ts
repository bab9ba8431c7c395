import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import { ignoreAbsence } from '#base/absence.ts'
import type { Database } from '#database/database.ts'
import type { LfsObjectRow } from '#database/schema.ts'
import type { Directories } from '#repositories/directories/directories.ts'
import { listLfsObjects } from '#repositories/lfs-object-store.ts'
import { pathOfLfsObject } from '#repositories/store/lfs-files.ts'
import type { Store } from '#repositories/store/store.ts'
import type { BackupFolder } from './backup-folder.ts'
import { ContentError } from './bytes.ts'
import { pathOfBackedUpLfs } from './manifest.ts'

type Dependencies = {
  db: Database
  directories: Pick<Directories, 'locate'>
  store: Pick<Store, 'lfsFiles' | 'shared'>
  folder: BackupFolder
}

/**
 * Adds the LFS objects of a repository. Returns the ids of those that are missing or damaged, and that the previous backup
 * does not have either.
 */
export async function addLfsObjects(
  dependencies: Dependencies,
  rows: readonly LfsObjectRow[],
  signal: AbortSignal,
): Promise<string[]> {
  const { db, folder } = dependencies
  const lacking: string[] = []
  for (const row of rows) {
    signal.throwIfAborted()
    const { repositoryId, oid } = row
    const isAdded = await folder.addNamed(pathOfBackedUpLfs(row), oid, () =>
      readChunks(dependencies, row, signal),
    )
    if (isAdded) continue
    // It may have been deleted since its row was read.
    const [present] = await listLfsObjects(db, repositoryId, [oid])
    if (present) lacking.push(oid)
  }
  return lacking
}

/** Reads the bytes of an object. Throws a ContentError when it is missing. */
async function* readChunks(
  { directories, store }: Dependencies,
  row: LfsObjectRow,
  signal: AbortSignal,
): AsyncGenerator<Buffer, void, undefined> {
  const { repositoryId, oid, size } = row
  if (store.shared) {
    await using object = await store.lfsFiles.open(row)
    if (!object) throw new ContentError()
    yield* object.read({ start: 0, bytes: size }, signal)
    return
  }
  // It may move meanwhile, because its repository is deleted or restored.
  for (const attempt of [1, 2, 3]) {
    const directory = (await directories.locate(repositoryId)) ?? ''
    const flags = constants.O_RDONLY | constants.O_NOFOLLOW
    const file = await open(pathOfLfsObject(directory, oid), flags).catch(ignoreAbsence)
    if (!file && attempt < 3) continue
    if (!file) throw new ContentError()
    await using _closed = file
    yield* file.createReadStream({ autoClose: false, highWaterMark: 1024 * 1024 })
    return
  }
}
