import { mkdir, readdir, rename, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { ignoreAbsence, ignoreExistence } from '#base/absence.ts'

/** The directories of deleted repositories that can be restored, in `deleted`. */
export type DeletedDirectories = {
  deletedPathOf: (id: string) => string
  /** Moves a deleted repository out of its place, and discards what is there later. Idempotent. */
  moveToDeleted: (id: string) => Promise<void>
  /** Moves it back. Idempotent. */
  moveFromDeleted: (id: string) => Promise<void>
  /** The ids of all directories in `deleted`. */
  listDeleted: () => Promise<string[]>
}

type Dependencies = {
  deleted: string
  pathOf: (id: string) => string
  /** Removes what is in the place of a repository. */
  discard: (id: string) => Promise<void>
}

// Moves are not synced: after a power failure, the next start makes directories match rows again.
export function createDeletedDirectories({
  deleted,
  pathOf,
  discard,
}: Dependencies): DeletedDirectories {
  const deletedPathOf = (id: string) => join(deleted, `${id}.git`)

  async function move(from: string, to: string): Promise<void> {
    await mkdir(dirname(to), { mode: 0o700 }).catch(ignoreExistence)
    await rename(from, to)
  }

  return {
    deletedPathOf,

    async moveToDeleted(id) {
      // A git process that was running during the deletion may have created files in its place.
      if (await isThere(deletedPathOf(id))) return discard(id)
      await move(pathOf(id), deletedPathOf(id)).catch(ignoreAbsence)
    },

    async moveFromDeleted(id) {
      if (!(await isThere(deletedPathOf(id)))) return
      await discard(id)
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
