import { access, constants, mkdir, readdir, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ignoreAbsence, ignoreExistence } from '#base/absence.ts'
import { sync, syncTree } from '#base/disk.ts'
import type { FaultPoint } from '#base/fault-points.ts'
import { isId, newId } from '#base/ids.ts'
import type { ObjectFormat } from '#base/object-id.ts'
import { isLocked } from '#config/data-directory.ts'
import { removeLeftovers } from '#git/maintenance/leftovers.ts'
import type { Git } from '#git/process/git-process.ts'
import {
  createDeletedDirectories,
  type DeletedDirectories,
  isThere,
} from './deleted-directories.ts'
import { createDrafts, type Drafts } from './drafts.ts'

/**
 * The directories of repositories: `repositories/<last 2 of the id>/<id>.git`. They are created in `staging` and
 * removed through `trash`, so that a directory in place is always complete.
 */
export type Directories = Drafts &
  DeletedDirectories & {
    pathOf: (id: string) => string
    /** Creates an empty repository; it is durable when this returns. */
    create: (id: string, format: ObjectFormat, defaultBranch?: string) => Promise<void>
    /** Moves a draft into place durably. */
    place: (id: string) => Promise<void>
    /** Moves a repository to the trash, then removes its files. Idempotent. */
    remove: (id: string) => Promise<void>
    /** The path of a repository, in place, deleted or in the trash; undefined when its files are removed. */
    locate: (id: string) => Promise<string | undefined>
    /** Removes deleted repositories, unless a backup is running, which may still need them. */
    emptyTrash: () => Promise<void>
    /** Marks a repository for deletion: after a crash, its directory may be removed if its row is deleted. */
    markForDeletion: (id: string) => Promise<void>
    /** The same for a draft, which is placed before its row is complete. */
    markDraftForDeletion: (id: string) => Promise<void>
    /** Removes the mark. */
    unmarkForDeletion: (id: string) => Promise<void>
    isMarkedForDeletion: (id: string) => Promise<boolean>
    /** Moves a repository to `lost+found`, which is never emptied. Returns the new path. */
    quarantine: (id: string) => Promise<string>
    /** The ids of all directories that are in place. */
    list: () => Promise<string[]>
    /**
     * Creates the folders for repositories, and empties staging and trash except for what is in use. `endWorkers`
     * ends the processes that still write to the draft of a program that has died.
     */
    prepare: (endWorkers: (id: string) => Promise<unknown>) => Promise<void>
    /** Rejects when a folder is missing or not accessible. */
    assertThere: () => Promise<void>
    /**
     * Removes what killed git processes left in a repository without running pushes. Temporary files of fetches are
     * removed only if older than `before`, since fetches may be running. Returns the removed paths.
     */
    cleanUp: (id: string, before: number) => Promise<string[]>
  }

type Dependencies = {
  dataDir: string
  /** Whether the directories are caches of a shared store. */
  isCache?: boolean
  git: Git
  faultPoint: FaultPoint
}

const maxRetries = 5
const deletionMark = 'svc-deleting'

export function createDirectories({
  dataDir,
  isCache,
  git,
  faultPoint,
}: Dependencies): Directories {
  const root = join(dataDir, isCache ? 'cache' : 'repositories')
  const staging = join(dataDir, 'staging')
  const trash = join(dataDir, 'trash')
  const lost = join(dataDir, 'lost+found')
  const drafts = createDrafts({ staging, git })
  const { draftOf } = drafts
  const deleted = join(dataDir, 'deleted')
  const deletedDirectories = createDeletedDirectories({ deleted, pathOf, discard })
  const { deletedPathOf } = deletedDirectories
  const bothPathsOf = (id: string) => [pathOf(id), deletedPathOf(id)]

  function pathOf(id: string): string {
    // Directories are moved and removed by this path, so an id from a corrupt database must not escape the root.
    if (!isId(id)) throw new Error(`"${id}" is not the id of a repository`)
    return `${root}/${id.slice(-2)}/${id}.git`
  }

  // Folders of a cache may be removed at any time.
  const namesIn = (folder: string): Promise<string[]> =>
    readdir(folder).catch((error) => {
      if (isCache) ignoreAbsence(error)
      else throw error
      return []
    })

  async function place(id: string): Promise<void> {
    const path = pathOf(id)
    await syncTree(draftOf(id))
    await mkdir(join(path, '..'), { recursive: isCache === true, mode: 0o700 }).catch(
      ignoreExistence,
    )
    await rename(draftOf(id), path)
    await sync(join(path, '..'))
    await sync(root)
  }

  // Retries: a running git may still create files in it.
  function removeTree(path: string): Promise<void> {
    return rm(path, { recursive: true, force: true, maxRetries })
  }

  async function discard(id: string): Promise<void> {
    const trashed = join(trash, `${id}.${newId()}`)
    const isTrashed = await rename(pathOf(id), trashed).then(() => true, ignoreAbsence)
    if (isTrashed && !isLocked(dataDir, 'backup')) await removeTree(trashed)
  }

  async function emptyTrash(): Promise<void> {
    const names = await readdir(trash).catch(ignoreAbsence)
    // Checked after listing: a backup that starts later does not include them.
    if (!names?.length || isLocked(dataDir, 'backup')) return
    for (const name of names) await removeTree(join(trash, name))
  }

  return {
    ...drafts,
    ...deletedDirectories,
    pathOf,

    async create(id, format, defaultBranch) {
      try {
        await drafts.draft(id, format, defaultBranch)
        faultPoint('create.made')
        await place(id)
        faultPoint('create.placed')
      } catch (error) {
        await drafts.discard(id)
        throw error
      }
    },

    place,

    async remove(id) {
      const [trashed, rest] = [join(trash, `${id}.git`), join(trash, `${id}.rest`)]
      const isDeleted = await rename(deletedPathOf(id), trashed).then(() => true, ignoreAbsence)
      // Of a deleted repository, a git process may have left files in its place.
      await rename(pathOf(id), isDeleted ? rest : trashed).catch(ignoreAbsence)
      faultPoint('delete.moved')
      if (isLocked(dataDir, 'backup')) return
      await removeTree(trashed)
      await removeTree(rest)
    },

    async locate(id) {
      // Both twice, since it may be moved from one to the other meanwhile.
      for (const path of [...bothPathsOf(id), join(trash, `${id}.git`), ...bothPathsOf(id)]) {
        if (await isThere(join(path, 'HEAD'))) return path
      }
      return undefined
    },

    emptyTrash,

    async markForDeletion(id) {
      for (const path of bothPathsOf(id))
        await writeFile(join(path, deletionMark), '', { flush: true }).catch(ignoreAbsence)
      faultPoint('delete.marked')
    },

    markDraftForDeletion: (id) => writeFile(join(draftOf(id), deletionMark), ''),

    async unmarkForDeletion(id) {
      for (const path of bothPathsOf(id)) await rm(join(path, deletionMark), { force: true })
    },

    async isMarkedForDeletion(id) {
      const names = bothPathsOf(id).map((path): Promise<string[]> => readdir(path).catch(() => []))
      return (await Promise.all(names)).flat().includes(deletionMark)
    },

    async quarantine(id) {
      const path = join(lost, `${id}.git`)
      await mkdir(lost, { recursive: true, mode: 0o700 })
      for (const from of bothPathsOf(id)) await rename(from, path).catch(ignoreAbsence)
      return path
    },

    async list() {
      const ids: string[] = []
      for (const folder of await namesIn(root)) {
        for (const name of await namesIn(join(root, folder))) ids.push(name.replace(/\.git$/, ''))
      }
      return ids
    },

    async prepare(endWorkers) {
      await emptyTrash()
      // Also `deleted`: a full disk has no space for it when a repository is deleted.
      for (const folder of [root, staging, trash, deleted]) {
        await mkdir(folder, { recursive: true, mode: 0o700 })
      }
      const ids = new Set((await readdir(staging)).map((name) => name.replace(/\..*$/s, '')))
      for (const id of ids) {
        // An import from the command line may be using the draft.
        using free = await drafts.hold(id)
        if (!free) continue
        await endWorkers(id)
        await drafts.discard(id)
      }
    },

    async assertThere() {
      if (isCache) await mkdir(root, { recursive: true, mode: 0o700 })
      for (const folder of [root, staging, trash])
        await access(folder, constants.X_OK | constants.W_OK)
    },

    cleanUp: (id, before) => removeLeftovers(pathOf(id), before),
  }
}
