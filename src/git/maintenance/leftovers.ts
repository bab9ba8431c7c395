import { open, readdir, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'

const maxRetries = 5

/**
 * Removes what killed git processes left in a repository without running pushes. Temporary files of fetches are removed
 * only if older than `before`, since fetches may be running. Returns the removed paths.
 */
export async function removeLeftovers(directory: string, before: number): Promise<string[]> {
  const objects = join(directory, 'objects')
  const info = join(objects, 'info')
  // First: a partial pack may have its other files among the expired ones.
  await restoreExpired(directory)
  return [
    ...(await removeIn(directory, leftovers.fetches, before)),
    ...(await removeIn(directory, leftovers.top)),
    ...(await removeLocks(join(directory, 'refs'))),
    ...(await removeIn(objects, leftovers.objects)),
    ...(await removeIn(join(objects, 'pack'), leftovers.packs)),
    ...(await removeHalfPacks(join(objects, 'pack'))),
    ...(await removeHalfIndexes(join(objects, 'pack'))),
    ...(await removeIn(info, leftovers.graphs)),
    ...(await removeIn(join(info, 'commit-graphs'), leftovers.graphs)),
  ]
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

async function isOlder(path: string, before: number): Promise<boolean> {
  return stat(path).then(
    ({ mtimeMs }) => mtimeMs < before,
    () => false,
  )
}

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
