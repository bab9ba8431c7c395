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

export type Directories = ReturnType<typeof createDirectories>

type Dependencies = { dataDir: string; git: Git; faultPoint: FaultPoint }

const maxRetries = 5
const doomedMark = 'svc-deleting'

/**
 * The directories of repositories: `repositories/<last 2 of the id>/<id>.git`. They are made in
 * `staging` and deleted by way of `trash`, so that what stands in its place is always whole.
 */
export function createDirectories({ dataDir, git, faultPoint }: Dependencies) {
  const root = join(dataDir, 'repositories')
  const staging = join(dataDir, 'staging')
  const trash = join(dataDir, 'trash')
  const lost = join(dataDir, 'lost+found')

  function pathOf(id: string): string {
    // What is moved and removed must be what was made here, whatever a database says.
    if (!isId(id)) throw new Error(`"${id}" is not the id of a repository`)
    return `${root}/${id.slice(-2)}/${id}.git`
  }

  const lockOf = (id: string) => join(staging, `${id}.lock`)
  const draftOf = (id: string) => join(staging, `${id}.git`)
  const scratchOf = (id: string, what: string) => join(staging, `${id}.${what}`)

  async function draft(id: string, defaultBranch?: string): Promise<string> {
    // Git would make the folders above it, too, on whatever disk is there while that of the data directory is not.
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
    // A git that is told to end may make files until it does.
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

  // A git that is at work in it may make files until it learns of its end.
  function bury(grave: string): Promise<void> {
    return rm(grave, { recursive: true, force: true, maxRetries })
  }

  /** Removes what was taken away. While a backup runs, which may still need it, nothing is removed. */
  async function emptyTrash(): Promise<void> {
    const graves = await readdir(trash).catch(ignoreAbsence)
    // Asked after they were there: a backup that begins now knows nothing of them.
    if (!graves?.length || isLocked(dataDir, 'backup')) return
    for (const name of graves) await bury(join(trash, name))
  }

  return {
    pathOf,

    /** Makes an empty repository; it is on the disk when this returns. */
    async create(id: string, defaultBranch?: string): Promise<void> {
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

    /** Makes an empty repository where nobody looks, to be filled and put in its place; its path. */
    draft,

    /** Puts a draft in its place, all of it on the disk. */
    place,

    /** Removes a draft and whatever else belongs to it. */
    discard,

    /** A path for what is made on the way to a repository, gone with its draft. */
    scratchOf,

    /** Removes what was made there. */
    removeScratch: (id: string, what: string) =>
      rm(scratchOf(id, what), { recursive: true, force: true, maxRetries }),

    /** Takes a repository away at once and its files soon after. One that is gone already is fine. */
    async remove(id: string): Promise<void> {
      const grave = join(trash, `${id}.git`)
      await rename(pathOf(id), grave).catch(ignoreAbsence)
      faultPoint('delete.moved')
      if (!isLocked(dataDir, 'backup')) await bury(grave)
    },

    /** Where a repository is, also once it was taken away and its files are still there. */
    async locate(id: string): Promise<string | undefined> {
      for (const path of [pathOf(id), join(trash, `${id}.git`), pathOf(id)]) {
        if (await isThere(join(path, 'HEAD'))) return path
      }
      return undefined
    },

    emptyTrash,

    /** Marks a repository as one that is being deleted: should its row be gone, its directory may go, too. */
    async doom(id: string): Promise<void> {
      await writeFile(join(pathOf(id), doomedMark), '', { flush: true }).catch(ignoreAbsence)
      faultPoint('delete.marked')
    },

    /** The same for a draft that is to be put in its place before its row is complete. */
    doomDraft: (id: string) => writeFile(join(draftOf(id), doomedMark), ''),

    /** Takes the mark away from a repository whose row has stayed. */
    async spare(id: string): Promise<void> {
      await rm(join(pathOf(id), doomedMark), { force: true })
    },

    async isDoomed(id: string): Promise<boolean> {
      const names: string[] = await readdir(pathOf(id)).catch(() => [])
      return names.includes(doomedMark)
    },

    /** Moves a repository to where nothing is ever removed; the new path. */
    async setAside(id: string): Promise<string> {
      const path = join(lost, `${id}.git`)
      await mkdir(lost, { recursive: true, mode: 0o700 })
      await rename(pathOf(id), path)
      return path
    },

    /** The ids of all directories that are in place. */
    async list(): Promise<string[]> {
      const ids: string[] = []
      for (const folder of await readdir(root)) {
        for (const name of await readdir(join(root, folder))) ids.push(name.replace(/\.git$/, ''))
      }
      return ids
    },

    /**
     * Makes the folders that hold repositories and empties those of passage, but for what is in use.
     * `endWorkers` ends the processes that still make files for a draft whose program is dead.
     */
    async prepare(endWorkers: (id: string) => Promise<unknown>): Promise<void> {
      await emptyTrash()
      for (const folder of [root, staging, trash]) {
        await mkdir(folder, { recursive: true, mode: 0o700 })
      }
      const drafts = new Set((await readdir(staging)).map((name) => name.replace(/\..*$/s, '')))
      for (const id of drafts) {
        // The command line may be importing.
        using free = await hold(id)
        if (!free) continue
        await endWorkers(id)
        await discard(id)
      }
    },

    /** Rejects when one of the folders is missing or cannot be entered. */
    async assertThere(): Promise<void> {
      for (const folder of [root, staging, trash]) await access(folder, constants.X_OK)
    },

    /** Keeps others from clearing a draft away; undefined when somebody else does so. */
    hold,

    /** Where a draft is made. */
    draftOf,

    /**
     * Removes what killed git processes left behind in a repository into which nobody is pushing. What
     * fetches use for a while is removed when it is older than a moment, since others may be running.
     */
    async tidy(id: string, before: number): Promise<string[]> {
      const path = pathOf(id)
      const info = join(path, 'objects', 'info')
      // Before half packs are looked for: one may be half here and half there.
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

// Git puts a pack's index in its place last; what it takes away first depends on its version.
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

// The index of all packs ends in the checksum by which its bitmap is called, and is put in its place last.
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
