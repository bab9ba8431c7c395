import { open, readdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'

/**
 * The folder of packs of pruned objects, kept until it is certain that no concurrent push needs them.
 */
export const expiredFolder = 'svc-expired'

/** Whether there are expired packs. */
export async function hasExpired(directory: string): Promise<boolean> {
  return (await namesIn(directory)).some((name) => name.endsWith('.idx'))
}

/**
 * Moves the expired packs back to the others; returns their files. A pack without an index was never removed from the
 * others. The index is moved last, so that an interrupted move can be continued.
 */
export async function restoreExpired(directory: string): Promise<string[]> {
  const folder = join(directory, expiredFolder)
  const packs = join(directory, 'objects', 'pack')
  const names = new Set(await namesIn(directory))
  const others = new Set(names.size > 0 ? await readdir(packs) : [])
  const whole = [...names].filter((name) => {
    const [pack, index] = ['pack', 'idx'].map(
      (type) => `${name.slice(0, name.lastIndexOf('.') + 1)}${type}`,
    )
    return pack && index && names.has(index) && (names.has(pack) || others.has(pack))
  })
  const inOrder = whole.sort((a, b) => Number(a.endsWith('.idx')) - Number(b.endsWith('.idx')))
  for (const name of inOrder) await rename(join(folder, name), join(packs, name))
  if (whole.length > 0) {
    await using handle = await open(packs)
    await handle.sync()
  }
  await dropExpired(directory)
  return whole.map((name) => join(packs, name))
}

/** Deletes the expired packs. */
export async function dropExpired(directory: string): Promise<void> {
  await rm(join(directory, expiredFolder), { recursive: true, force: true })
}

function namesIn(directory: string): Promise<string[]> {
  return readdir(join(directory, expiredFolder)).catch(() => [])
}
