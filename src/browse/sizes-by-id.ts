import { LRUCache } from 'lru-cache'
import type { ObjectReader } from '#git/objects/object-reader.ts'

/** The sizes of objects by id, in bytes; undefined for a missing one. */
export type SizesById = (
  objects: Pick<ObjectReader, 'find'>,
  id: string,
) => number | undefined | Promise<number | undefined>

const maxSizes = 50_000

/** Caches the sizes of objects: between two versions of a folder, few of its files change. */
export function createSizesById(): SizesById {
  // By size, because `max` would allocate all at once.
  const known = new LRUCache<string, number>({ maxSize: maxSizes, sizeCalculation: () => 1 })

  async function find(objects: Pick<ObjectReader, 'find'>, id: string) {
    const found = await objects.find(id)
    if (found) known.set(id, found.bytes)
    return found?.bytes
  }

  return (objects, id) => known.get(id) ?? find(objects, id)
}
