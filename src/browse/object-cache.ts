import { LRUCache } from 'lru-cache'
import type { ObjectReader } from '#git/objects/object-reader.ts'

/** Finds something of an object by its id; undefined for a missing object. It may be there at once. */
export type ObjectCache<T> = (objects: ObjectReader, id: string) => T | Promise<T | undefined>

/** Caches what `read` finds of objects, which never change. */
export function createObjectCache<T extends object | number>(
  limits: LRUCache.OptionsSizeLimit<string, T, unknown>,
  read: (objects: ObjectReader, id: string) => Promise<T | undefined>,
): ObjectCache<T> {
  const known = new LRUCache<string, T>(limits)

  async function find(objects: ObjectReader, id: string): Promise<T | undefined> {
    const found = await read(objects, id)
    if (found !== undefined) known.set(id, found)
    return found
  }

  return (objects, id) => known.get(id) ?? find(objects, id)
}
