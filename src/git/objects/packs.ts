import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { isAbsence } from '../../base/absence.ts'

/** Returns the total size of a repository's packs, in bytes. All pushed objects are in packs. */
export async function packBytes(directory: string): Promise<number> {
  const folder = join(directory, 'objects', 'pack')
  const names = await readdir(folder).catch(absentAs<string[]>([]))
  const sizes = await Promise.all(
    names.map((name) => stat(join(folder, name)).then(({ size }) => size, absentAs(0))),
  )
  return sizes.reduce((sum, size) => sum + size, 0)
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
