import { LRUCache } from 'lru-cache'
import type { ObjectReader } from '#git/objects/object-reader.ts'

/** Reads the contents of blobs; undefined for a missing one. Throws as `ObjectReader.read` does. */
export type BlobsById = (
  objects: Pick<ObjectReader, 'read'>,
  id: string,
  maxBytes: number,
) => Promise<Buffer | undefined>

const cachedMaxBytes = 8 * 1024 * 1024

/** Caches the contents of small blobs. */
export function createBlobsById(): BlobsById {
  const known = new LRUCache<string, Buffer>({
    maxSize: cachedMaxBytes,
    maxEntrySize: cachedMaxBytes / 64,
    sizeCalculation: ({ length }) => 200 + length,
  })

  return async (objects, id, maxBytes) => {
    const cached = known.get(id)
    if (cached) return cached
    const found = await objects.read(id, maxBytes)
    if (found) known.set(id, found.content)
    return found?.content
  }
}
