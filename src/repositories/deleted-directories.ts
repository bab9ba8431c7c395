import { mkdir, readdir, rename, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { ignoreAbsence, ignoreExistence } from '../base/absence.ts'
import { newId } from '../base/ids.ts'

/** The directories of deleted repositories that can be restored, in `deleted`. */
export type DeletedDirectories = {
  deletedPathOf: (id: string) => string
  /** Moves a deleted repository out of its place. Idempotent. */
  moveToDeleted: (id: string) => Promise<void>
  /** Moves it back. Idempotent. */
  moveFromDeleted: (id: string) => Promise<void>
  /** The ids of all directories in `deleted`. */
  listDeleted: () => Promise<string[]>
}

type Dependencies = { deleted: string; trash: string; pathOf: (id: string) => string }

// Moves are not synced: after a power failure, the next start makes directories match rows again.
export function createDeletedDirectories({
  deleted,
  trash,
  pathOf,
}: Dependencies): DeletedDirectories {
  const deletedPathOf = (id: string) => join(deleted, `${id}.git`)

  async function move(from: string, to: string): Promise<void> {
    await mkdir(dirname(to), { mode: 0o700 }).catch(ignoreExistence)
    await rename(from, to)
  }

  return {
    deletedPathOf,

    async moveToDeleted(id) {
      if (await isThere(deletedPathOf(id))) return
      await move(pathOf(id), deletedPathOf(id)).catch(ignoreAbsence)
    },

    async moveFromDeleted(id) {
      if (!(await isThere(deletedPathOf(id)))) return
      // A git process that was running during the deletion may have created files here.
      await rename(pathOf(id), join(trash, `${id}.${newId()}`)).catch(ignoreAbsence)
      await move(deletedPathOf(id), pathOf(id))
    },

    async listDeleted() {
      const names = (await readdir(deleted).catch(ignoreAbsence)) ?? []
      return names.map((name) => name.replace(/\.git$/, ''))
    },
  }
}

/** Whether there is a file or directory at a path. */
export async function isThere(path: string): Promise<boolean> {
  return stat(path)
    .then(() => true, ignoreAbsence)
    .then(Boolean)
}
