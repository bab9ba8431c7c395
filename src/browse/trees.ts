import { LRUCache } from 'lru-cache'
import { createSemaphore } from '#base/concurrency/semaphore.ts'
import { createSingleFlight } from '#base/concurrency/single-flight.ts'
import { formatOf } from '#base/object-id.ts'
import { Problem } from '#base/problem.ts'
import { createTimeSlices } from '#base/time-slices.ts'
import type { ObjectReader } from '#git/objects/object-reader.ts'
import {
  entryAt,
  entryCount,
  entryNamed,
  MalformedTreeError,
  type TreeBuffer,
  type TreeEntry,
  toTreeBuffer,
} from '#git/objects/tree-buffer.ts'
import { GitError } from '#git/process/git-process.ts'
import type { RawPath } from './api-path.ts'

/**
 * Reads trees. Names are raw: each character is a byte (latin1). All throw `git_limit_exceeded` for a tree that is too
 * large, and `repository_damaged` for one that is missing or malformed.
 */
export type Trees = {
  /** The entries of a tree, in Git's order. For a few of many entries, `open` is cheaper. */
  read: (objects: ObjectReader, id: string) => Promise<readonly TreeEntry[]>
  /** A tree as it is stored. */
  open: (objects: ObjectReader, id: string) => Promise<TreeBuffer>
  /** The entry at a path below a tree. Throws `path_not_found`. */
  find: (objects: ObjectReader, treeId: string, path: RawPath) => Promise<TreeEntry>
}

export const treeMode = '40000'
const mib = 1024 * 1024
const treeMaxBytes = 32 * mib
const cachedMaxBytes = 32 * mib
/** Larger trees are read a few at a time. */
const largeBytes = 2 * mib
const maxLarge = 2
const entriesPerCheck = 256
const untilEnd = new AbortController().signal

/** Caches trees, which never change. */
export function createTrees(): Trees {
  const known = new LRUCache<string, TreeBuffer>({
    maxSize: cachedMaxBytes,
    maxEntrySize: cachedMaxBytes / 4,
    sizeCalculation: ({ content, starts }) => 200 + content.length + starts.byteLength,
  })
  const share = createSingleFlight<TreeBuffer>()
  const large = createSemaphore(maxLarge)

  async function fetch(objects: ObjectReader, id: string): Promise<TreeBuffer> {
    const summary = await objects.find(id)
    if (summary?.type !== 'tree') throw damaged(id)
    if (summary.bytes > treeMaxBytes) throw tooLarge()
    using _permit = summary.bytes > largeBytes ? await large.acquire(untilEnd) : undefined
    const found = await objects.read(id, treeMaxBytes)
    if (!found) throw damaged(id)
    return toTreeBuffer(found.content, formatOf(id))
  }

  async function open(objects: ObjectReader, id: string): Promise<TreeBuffer> {
    const cached = known.get(id)
    if (cached) return cached
    try {
      const tree = await share(id, () => fetch(objects, id))
      known.set(id, tree)
      return tree
    } catch (error) {
      // Git ends when it reads a damaged object.
      const isDamage =
        error instanceof MalformedTreeError || (error instanceof GitError && error.isRefusal)
      throw isDamage ? damaged(id) : error
    }
  }

  return {
    open,

    async read(objects, id) {
      const tree = await open(objects, id)
      const slices = createTimeSlices()
      const entries: TreeEntry[] = []
      for (let index = 0; index < entryCount(tree); index++) {
        if (index % entriesPerCheck === 0) await slices.rest()
        entries.push(entryAt(tree, index))
      }
      return entries
    },

    async find(objects, treeId, path) {
      let entry: TreeEntry = { mode: treeMode, name: '', id: treeId }
      for (const name of path === '' ? [] : path.split('/')) {
        const next =
          entry.mode === treeMode ? entryNamed(await open(objects, entry.id), name) : undefined
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

function damaged(id: string): Problem {
  return new Problem(
    'repository_damaged',
    `The folder ${id} is missing or damaged; contact the administrator of the server.`,
  )
}

function tooLarge(): Problem {
  return new Problem(
    'git_limit_exceeded',
    `The folder is larger than ${treeMaxBytes / mib} MiB, the limit of this request.`,
  )
}
