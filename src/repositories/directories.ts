import { rmSync } from 'node:fs'
import {
  access,
  constants,
  mkdir,
  open,
  readdir,
  rename,
  rm,
  stat,
  writeFile,
} from 'node:fs/promises'
import { join } from 'node:path'
import { ignoreAbsence, ignoreExistence } from '../base/absence.ts'
import { sync, syncTree } from '../base/disk.ts'
import type { FaultPoint } from '../base/fault-points.ts'
import { isId } from '../base/ids.ts'
import { holdLock } from '../base/lock-file.ts'
import { isLocked } from '../config/data-directory.ts'
import { restoreExpired } from '../git/maintenance/expired-packs.ts'
import { gitCommands } from '../git/process/commands.ts'
import type { Git } from '../git/process/git-process.ts'

/**
 * The directories of repositories: `repositories/<last 2 of the id>/<id>.git`. They are created in `staging` and
 * deleted through `trash`, so that a directory in place is always complete.
 */
export type Directories = {
  pathOf: (id: string) => string
  /** Creates an empty repository; it is durable when this returns. */
  create: (id: string, defaultBranch?: string) => Promise<void>
  /** Creates an empty draft in staging, to be filled and then placed. Returns its path. */
  draft: (id: string, defaultBranch?: string) => Promise<string>
  /** Moves a draft into place durably. */
  place: (id: string) => Promise<void>
  /** Removes a draft and its scratch files. */
  discard: (id: string) => Promise<void>
  /** A path for temporary files of a draft, removed with it. */
  scratchOf: (id: string, name: string) => string
  removeScratch: (id: string, name: string) => Promise<void>
  /** Moves a repository to the trash, then removes its files. Idempotent. */
  remove: (id: string) => Promise<void>
  /** The path of a repository, in place or in the trash; undefined when its files are removed. */
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
  /** Locks a draft against removal; undefined when another process holds the lock. */
  hold: (id: string) => Promise<Disposable | undefined>
  /** The path of a draft. */
  draftOf: (id: string) => string
  /**
   * Removes what killed git processes left in a repository without running pushes. Temporary files of fetches are
   * removed only if older than `before`, since fetches may be running. Returns the removed paths.
   */
  cleanUp: (id: string, before: number) => Promise<string[]>
}

type Dependencies = { dataDir: string; git: Git; faultPoint: FaultPoint }

const maxRetries = 5
const deletionMark = 'svc-deleting'

export function createDirectories({ dataDir, git, faultPoint }: Dependencies): Directories {
  const root = join(dataDir, 'repositories')
  const staging = join(dataDir, 'staging')
  const trash = join(dataDir, 'trash')
  const lost = join(dataDir, 'lost+found')

  function pathOf(id: string): string {
    // Directories are moved and removed by this path, so an id from a corrupt database must not escape the root.
    if (!isId(id)) throw new Error(`"${id}" is not the id of a repository`)
    return `${root}/${id.slice(-2)}/${id}.git`
  }

  const lockOf = (id: string) => join(staging, `${id}.lock`)
  const draftOf = (id: string) => join(staging, `${id}.git`)
  const scratchOf = (id: string, name: string) => join(staging, `${id}.${name}`)

  async function draft(id: string, defaultBranch?: string): Promise<string> {
    // Not left to git, which would create missing parents, too: on the wrong disk when the data directory is not mounted.
    await mkdir(draftOf(id))
    await git.run(gitCommands.init(draftOf(id), defaultBranch))
    return draftOf(id)
  }

  async function place(id: string): Promise<void> {
    const path = pathOf(id)
    await syncTree(draftOf(id))
    await mkdir(join(path, '..'), { mode: 0o700 }).catch(ignoreExistence)
    await rename(draftOf(id), path)
    await sync(join(path, '..'))
    await sync(root)
  }

  async function discard(id: string): Promise<void> {
    // A git that is being ended may still create files.
    for (const name of await readdir(staging)) {
      if (!name.startsWith(`${id}.`) || join(staging, name) === lockOf(id)) continue
      await rm(join(staging, name), { recursive: true, force: true, maxRetries })
    }
  }

  async function hold(id: string): Promise<Disposable | undefined> {
    const held = await holdLock(lockOf(id))
    if (!held) return undefined
    return {
      [Symbol.dispose]() {
        rmSync(lockOf(id), { force: true })
        held[Symbol.dispose]()
      },
    }
  }

  // Retries: a running git may still create files in it.
  function removeTree(path: string): Promise<void> {
    return rm(path, { recursive: true, force: true, maxRetries })
  }

  async function emptyTrash(): Promise<void> {
    const names = await readdir(trash).catch(ignoreAbsence)
    // Checked after listing: a backup that starts later does not include them.
    if (!names?.length || isLocked(dataDir, 'backup')) return
    for (const name of names) await removeTree(join(trash, name))
  }

  return {
    pathOf,

    async create(id, defaultBranch) {
      try {
        await draft(id, defaultBranch)
        faultPoint('create.made')
        await place(id)
        faultPoint('create.placed')
      } catch (error) {
        await discard(id)
        throw error
      }
    },

    draft,

    place,

    discard,

    scratchOf,

    removeScratch: (id, name) =>
      rm(scratchOf(id, name), { recursive: true, force: true, maxRetries }),

    async remove(id) {
      const trashed = join(trash, `${id}.git`)
      await rename(pathOf(id), trashed).catch(ignoreAbsence)
      faultPoint('delete.moved')
      if (!isLocked(dataDir, 'backup')) await removeTree(trashed)
    },

    async locate(id) {
      for (const path of [pathOf(id), join(trash, `${id}.git`), pathOf(id)]) {
        if (await isThere(join(path, 'HEAD'))) return path
      }
      return undefined
    },

    emptyTrash,

    async markForDeletion(id) {
      await writeFile(join(pathOf(id), deletionMark), '', { flush: true }).catch(ignoreAbsence)
      faultPoint('delete.marked')
    },

    markDraftForDeletion: (id) => writeFile(join(draftOf(id), deletionMark), ''),

    async unmarkForDeletion(id) {
      await rm(join(pathOf(id), deletionMark), { force: true })
    },

    async isMarkedForDeletion(id) {
      const names: string[] = await readdir(pathOf(id)).catch(() => [])
      return names.includes(deletionMark)
    },

    async quarantine(id) {
      const path = join(lost, `${id}.git`)
      await mkdir(lost, { recursive: true, mode: 0o700 })
      await rename(pathOf(id), path)
      return path
    },

    async list() {
      const ids: string[] = []
      for (const folder of await readdir(root)) {
        for (const name of await readdir(join(root, folder))) ids.push(name.replace(/\.git$/, ''))
      }
      return ids
    },

    async prepare(endWorkers) {
      await emptyTrash()
      for (const folder of [root, staging, trash]) {
        await mkdir(folder, { recursive: true, mode: 0o700 })
      }
      const drafts = new Set((await readdir(staging)).map((name) => name.replace(/\..*$/s, '')))
      for (const id of drafts) {
        // An import from the command line may be using the draft.
        using free = await hold(id)
        if (!free) continue
        await endWorkers(id)
        await discard(id)
      }
    },

    async assertThere() {
      for (const folder of [root, staging, trash]) await access(folder, constants.X_OK)
    },

    hold,

    draftOf,

    async cleanUp(id, before) {
      const path = pathOf(id)
      const info = join(path, 'objects', 'info')
      // First: a partial pack may have its other files among the expired ones.
      await restoreExpired(path)
      return [
        ...(await removeIn(path, leftovers.fetches, before)),
        ...(await removeIn(path, leftovers.top)),
        ...(await removeLocks(join(path, 'refs'))),
        ...(await removeIn(join(path, 'objects'), leftovers.objects)),
        ...(await removeIn(join(path, 'objects', 'pack'), leftovers.packs)),
        ...(await removeHalfPacks(join(path, 'objects', 'pack'))),
        ...(await removeHalfIndexes(join(path, 'objects', 'pack'))),
        ...(await removeIn(info, leftovers.graphs)),
        ...(await removeIn(join(info, 'commit-graphs'), leftovers.graphs)),
      ]
    },
  }
}

// A branch may be called `tmp_x` or `x.new`, so each folder has a pattern of its own. No ref ends in `.lock`.
const leftovers = {
  fetches: /^shallow_/,
  top: /\.lock$|^packed-refs\.new$/,
  refs: /\.lock$/,
  objects: /^(tmp_|incoming-)/,
  // A `.keep` guards a new pack only until the refs of its push have moved.
  packs: /^\.?tmp[_-]|\.(lock|keep)$/,
  graphs: /^tmp_|\.lock$/,
}

async function removeIn(
  folder: string,
  pattern: RegExp,
  before = Number.POSITIVE_INFINITY,
): Promise<string[]> {
  const names = await readdir(folder).catch(() => [])
  const removed: string[] = []
  for (const name of names) {
    const path = join(folder, name)
    if (!pattern.test(name) || !(await isOlder(path, before))) continue
    await rm(path, { recursive: true, force: true, maxRetries })
    removed.push(path)
  }
  return removed
}

// Git writes a pack's index last; which file it deletes first depends on its version.
async function removeHalfPacks(folder: string): Promise<string[]> {
  const names = new Set(await readdir(folder).catch(() => []))
  const removed: string[] = []
  for (const name of names) {
    const [, pack] = /^(pack-[0-9a-f]+)\.\w+$/.exec(name) ?? []
    if (pack === undefined || (names.has(`${pack}.pack`) && names.has(`${pack}.idx`))) continue
    const path = join(folder, name)
    await rm(path, { force: true })
    removed.push(path)
  }
  return removed
}

// The files of a multi-pack-index are named by the checksum at its end, and it is written last.
async function removeHalfIndexes(folder: string): Promise<string[]> {
  const names = (await readdir(folder).catch((): string[] => [])).filter((name) =>
    name.startsWith('multi-pack-index-'),
  )
  if (names.length === 0) return []
  const ours = `multi-pack-index-${await lastBytes(join(folder, 'multi-pack-index'), 20)}.`
  const paths = names.filter((name) => !name.startsWith(ours)).map((name) => join(folder, name))
  for (const path of paths) await rm(path, { force: true })
  return paths
}

/** The end of a file in hex; empty when there is none. */
async function lastBytes(path: string, length: number): Promise<string> {
  await using file = await open(path).catch(() => undefined)
  if (!file) return ''
  const { size } = await file.stat()
  const position = Math.max(0, size - length)
  const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, position)
  return buffer.toString('hex', 0, bytesRead)
}

async function removeLocks(folder: string): Promise<string[]> {
  const removed = await removeIn(folder, leftovers.refs)
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => [])
  for (const entry of entries) {
    if (!entry.isDirectory()) continue
    removed.push(...(await removeLocks(join(folder, entry.name))))
  }
  return removed
}

async function isThere(path: string): Promise<boolean> {
  return stat(path)
    .then(() => true, ignoreAbsence)
    .then(Boolean)
}

async function isOlder(path: string, before: number): Promise<boolean> {
  return stat(path).then(
    ({ mtimeMs }) => mtimeMs < before,
    () => false,
  )
}
