import type { Git } from '../process/git-process.ts'
import { createProcessPool } from '../process/process-pool.ts'
import { type ObjectReader, type OpenedObjects, openObjects } from './object-reader.ts'

/**
 * Readers of the objects of repositories for requests. Each repository in use has one git process, which all requests
 * share and which ends when it is idle.
 */
export type ObjectPool = AsyncDisposable & {
  /** The reader of a repository. Its process starts with the first read, and again when it has died. */
  of: (directory: string) => ObjectReader
  /** The number of processes. */
  count: () => number
}

/** See `createProcessPool`. */
type Options = { git: Git; maxIdle?: number; idleMs?: number }

export function createObjectPool({ git, maxIdle = 8, idleMs }: Options): ObjectPool {
  const pool = createProcessPool<OpenedObjects>({ maxIdle, idleMs, isShared: true })

  async function use<T>(
    directory: string,
    work: (reader: ObjectReader) => Promise<T>,
    isRepeated = false,
  ): Promise<T> {
    const lease = pool.acquire(directory, () => openObjects(git, directory))
    let isKept = false
    try {
      const reader = await lease.process
      try {
        return await work(reader)
      } catch (error) {
        // It may have been killed, or have reached the limit of its CPU time, by many reads before this one.
        if (reader.isRunning() || isRepeated) throw error
      } finally {
        isKept = reader.isRunning()
      }
    } finally {
      void lease.release(isKept)
    }
    return await use(directory, work, true)
  }

  return {
    of: (directory) => ({
      find: (name) => use(directory, (reader) => reader.find(name)),
      read: (name, maxBytes) => use(directory, (reader) => reader.read(name, maxBytes)),
    }),
    count: pool.count,
    [Symbol.asyncDispose]: () => pool[Symbol.asyncDispose](),
  }
}
