import type { Git } from '../process/git-process.ts'
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

type Options = {
  git: Git
  /** How many idle processes are kept. */
  maxIdle?: number
  /** After how long an idle process ends. */
  idleMs?: number
}

type Entry = {
  opened: Promise<OpenedObjects>
  /** How many reads wait for it. */
  reads: number
  idleSince: number
}

const closers = new Set<(directory: string) => Promise<void>>()

/** Ends the processes of all pools that read a repository: its files would take space as long as they are open. */
export async function closeReadersOf(directory: string): Promise<void> {
  await Promise.all([...closers].map((close) => close(directory)))
}

/** Starting a git costs some 5 ms, reading a small object from one that runs 0.1 ms. */
export function createObjectPool({ git, maxIdle = 8, idleMs = 60_000 }: Options): ObjectPool {
  const entries = new Map<string, Entry>()
  const closing = new Set<Promise<void>>()
  let isDisposed = false
  const timer = setInterval(closeIdle, idleMs / 4)
  timer.unref()
  closers.add(close)

  function entryOf(directory: string): Entry {
    const known = entries.get(directory)
    if (known) return known
    const entry: Entry = {
      opened: openObjects(git, directory),
      reads: 0,
      idleSince: performance.now(),
    }
    // A failure is reported to those who read.
    entry.opened.catch(() => drop(directory, entry))
    entries.set(directory, entry)
    return entry
  }

  function drop(directory: string, entry: Entry): void {
    if (entries.get(directory) === entry) entries.delete(directory)
    const closed = entry.opened
      .then((reader) => reader[Symbol.asyncDispose]())
      .catch(() => {})
      .finally(() => closing.delete(closed))
    closing.add(closed)
  }

  async function close(directory: string): Promise<void> {
    const entry = entries.get(directory)
    if (entry) drop(directory, entry)
    await Promise.all(closing)
  }

  function closeIdle(): void {
    const idle = [...entries].filter(([, { reads }]) => reads === 0)
    idle.sort(([, one], [, other]) => other.idleSince - one.idleSince)
    const oldest = performance.now() - idleMs
    for (const [index, [directory, entry]] of idle.entries()) {
      if (index >= maxIdle || entry.idleSince < oldest) drop(directory, entry)
    }
  }

  async function use<T>(
    directory: string,
    work: (reader: ObjectReader) => Promise<T>,
    isRepeated = false,
  ): Promise<T> {
    if (isDisposed) throw new Error('The pool of object readers is closed.')
    const entry = entryOf(directory)
    entry.reads += 1
    try {
      const reader = await entry.opened
      try {
        return await work(reader)
      } catch (error) {
        if (reader.isOpen()) throw error
        drop(directory, entry)
        // It may have been killed, or have reached the limit of its CPU time, by many reads before this one.
        if (isRepeated || isDisposed) throw error
        return await use(directory, work, true)
      }
    } finally {
      entry.reads -= 1
      entry.idleSince = performance.now()
      if (entries.size > maxIdle) closeIdle()
    }
  }

  return {
    of: (directory) => ({
      find: (name) => use(directory, (reader) => reader.find(name)),
      read: (name, maxBytes) => use(directory, (reader) => reader.read(name, maxBytes)),
    }),

    count: () => entries.size,

    async [Symbol.asyncDispose]() {
      isDisposed = true
      closers.delete(close)
      clearInterval(timer)
      for (const [directory, entry] of entries) drop(directory, entry)
      await Promise.all(closing)
    },
  }
}
