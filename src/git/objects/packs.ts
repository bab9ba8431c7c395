import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { absentAs } from '#base/absence.ts'
import { readFingerprint } from '#base/file-fingerprint.ts'
import { createKnownFiles } from '#base/known-files.ts'

const knownSizes = createKnownFiles<number>(10_000)

/** Returns the total size of a repository's packs, in bytes. All pushed objects are in packs. */
export function packBytes(directory: string): Promise<number> {
  return bytesOfPacks(join(directory, 'objects'))
}

/** The same for the packs of an object directory, which may be the quarantine of a push. */
export async function bytesOfPacks(objects: string): Promise<number> {
  const folder = join(objects, 'pack')
  const all = await readdir(folder).catch(absentAs<string[]>([]))
  // Git removes the locks of new packs.
  const names = all.filter((name) => !name.endsWith('.keep'))
  const sizes = await Promise.all(
    names.map((name) => stat(join(folder, name)).then(({ size }) => size, absentAs(0))),
  )
  return sizes.reduce((sum, size) => sum + size, 0)
}

/** The same for a repository that is not being imported: its packs never grow, so they are measured when their folder changes. */
export async function knownPackBytes(directory: string): Promise<number> {
  const folder = join(directory, 'objects', 'pack')
  const fingerprint = readFingerprint(folder)
  const known = knownSizes.get(folder, fingerprint)
  if (known !== undefined) return known
  const bytes = await packBytes(directory)
  if (fingerprint) knownSizes.set(folder, fingerprint, bytes)
  return bytes
}

/** Whether a repository has a complete pack: git writes its index last. */
export async function hasIndexedPack(directory: string): Promise<boolean> {
  const names = await readdir(join(directory, 'objects', 'pack')).catch(absentAs<string[]>([]))
  return names.some((name) => name.endsWith('.idx'))
}
