import { open, readdir } from 'node:fs/promises'
import { join } from 'node:path'

/** Brings a file's content, or a folder's names, to the disk. */
export async function sync(path: string): Promise<void> {
  await using handle = await open(path)
  await handle.sync()
}

/** The same for a folder with all that is in it. */
export async function syncTree(folder: string): Promise<void> {
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name)
    await (entry.isDirectory() ? syncTree(path) : sync(path))
  }
  await sync(folder)
}
