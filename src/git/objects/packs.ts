import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { LRUCache } from 'lru-cache'
import { isAbsence } from '../../base/absence.ts'
import { type Fingerprint, isUnchanged, readFingerprint } from '../../base/file-fingerprint.ts'

const knownSizes = new LRUCache<string, { fingerprint: Fingerprint; bytes: number }>({
  maxSize: 10_000,
  sizeCalculation: () => 1,
})

/** Returns the total size of a repository's packs, in bytes. All pushed objects are in packs. */
export async function packBytes(directory: string): Promise<number> {
  const folder = join(directory, 'objects', 'pack')
  const names = await readdir(folder).catch(absentAs<string[]>([]))
  const sizes = await Promise.all(
    names.map((name) => stat(join(folder, name)).then(({ size }) => size, absentAs(0))),
  )
  return sizes.reduce((sum, size) => sum + size, 0)
}

/** The same for a repository that is not being imported: its packs never grow, so they are measured when their folder changes. */
export async function knownPackBytes(directory: string): Promise<number> {
  const fingerprint = readFingerprint(join(directory, 'objects', 'pack'))
  const known = knownSizes.get(directory)
  if (known && isUnchanged(known.fingerprint, fingerprint)) return known.bytes
  const bytes = await packBytes(directory)
  if (fingerprint) knownSizes.set(directory, { fingerprint, bytes })
  return bytes
}

/** Whether a repository has a complete pack: git writes its index last. */
export async function hasIndexedPack(directory: string): Promise<boolean> {
  const names = await readdir(join(directory, 'objects', 'pack')).catch(absentAs<string[]>([]))
  return names.some((name) => name.endsWith('.idx'))
}

// Files of a live repository come and go between two reads.
function absentAs<T>(value: T): (error: unknown) => T {
  return (error) => {
    if (isAbsence(error)) return value
    throw error
  }
}
