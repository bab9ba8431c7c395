import { mkdtemp, readdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { sync } from '#base/disk.ts'

/** An object directory within that of a repository, for the pack of a push; removed when it is disposed. */
export type Quarantine = AsyncDisposable & {
  path: string
  /** Flushes its files to disk. */
  sync: () => Promise<void>
  /** Moves its files into the repository. */
  migrate: () => Promise<void>
}

// As git calls its own, so that the leftovers of a killed server are found.
const prefix = 'tmp_objdir-incoming-'

export async function createQuarantine(directory: string): Promise<Quarantine> {
  const objects = join(directory, 'objects')
  const path = await mkdtemp(join(objects, prefix))
  const folder = join(path, 'pack')
  return {
    path,

    async sync() {
      const names = await readdir(folder)
      await Promise.all(names.map((name) => sync(join(folder, name))))
    },

    async migrate() {
      // Git uses a pack as soon as its index is there.
      const names = (await readdir(folder)).sort((one, other) => orderOf(one) - orderOf(other))
      for (const name of names) await rename(join(folder, name), join(objects, 'pack', name))
    },

    [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }),
  }
}

function orderOf(name: string): number {
  return name.endsWith('.idx') ? 1 : 0
}
