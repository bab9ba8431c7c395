import { open, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { forEachConcurrently } from './for-each-concurrently.ts'

// In each folder on the way down, so that of a deep tree there are some hundred at most.
const entriesAtOnce = 4

/** Brings a file's content, or a folder's names, to the disk. */
export async function sync(path: string): Promise<void> {
  await using handle = await open(path)
  await handle.sync()
}

/** The same for a folder with all that is in it. */
export async function syncTree(folder: string): Promise<void> {
  // A disk that is asked for several things has them in one go.
  await forEachConcurrently(
    entriesAtOnce,
    await readdir(folder, { withFileTypes: true }),
    async (entry) => {
      const path = join(folder, entry.name)
      await (entry.isDirectory() ? syncTree(path) : sync(path))
    },
  )
  await sync(folder)
}
