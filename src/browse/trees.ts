import { LRUCache } from 'lru-cache'
import { Problem } from '../base/problem.ts'
import {
  type ObjectReader,
  ObjectTooLargeError,
  parseTree,
  type TreeEntry,
} from '../git/objects/object-reader.ts'
import type { RawPath } from './api-path.ts'

/** Reads trees. Names are raw: each character is a byte (latin1). */
export type Trees = {
  /** The entries of a tree, in Git's order. Throws `git_limit_exceeded` for one that is too large. */
  read: (objects: Pick<ObjectReader, 'read'>, id: string) => Promise<readonly TreeEntry[]>
  /** The entry at a path below a tree. Throws `path_not_found`. */
  find: (objects: Pick<ObjectReader, 'read'>, treeId: string, path: RawPath) => Promise<TreeEntry>
}

export const treeMode = '40000'
const treeMaxBytes = 32 * 1024 * 1024
const cachedMaxBytes = 16 * 1024 * 1024
/** Approximate memory of an entry besides its name. */
const entryBytes = 150

/** Caches parsed trees, which never change. */
export function createTrees(): Trees {
  const known = new LRUCache<string, readonly TreeEntry[]>({
    maxSize: cachedMaxBytes,
    maxEntrySize: cachedMaxBytes / 4,
    sizeCalculation: (entries) =>
      entries.reduce((sum, { name }) => sum + entryBytes + name.length, entryBytes),
  })

  async function read(objects: Pick<ObjectReader, 'read'>, id: string) {
    const cached = known.get(id)
    if (cached) return cached
    const found = await objects.read(id, treeMaxBytes).catch((error) => {
      if (!(error instanceof ObjectTooLargeError)) throw error
      throw new Problem(
        'git_limit_exceeded',
        `The folder is larger than ${treeMaxBytes / 1024 / 1024} MiB, the limit of this request.`,
      )
    })
    const entries = found?.type === 'tree' ? parseTree(found.content, 'latin1') : []
    known.set(id, entries)
    return entries
  }

  return {
    read,

    async find(objects, treeId, path) {
      let entry: TreeEntry = { mode: treeMode, name: '', id: treeId }
      for (const name of path === '' ? [] : path.split('/')) {
        const entries = entry.mode === treeMode ? await read(objects, entry.id) : []
        const next = entries.find((one) => one.name === name)
        if (!next) throw notFound(path)
        entry = next
      }
      return entry
    },
  }
}

function notFound(path: RawPath): Problem {
  const shown = Buffer.from(path, 'latin1').toString('utf8')
  return new Problem('path_not_found', `"${shown}" is not in this revision.`)
}
