import { stat } from 'node:fs/promises'
import type { Clock } from '#base/clock.ts'
import type { CacheKey } from './cache-key.ts'
import type { ResponsePipe } from './response-pipe.ts'

type Options = {
  /** Limit of the bytes of all entries together. */
  maxBytes: number
  maxAgeMs: number
  clock: Clock
}

/** The size of a cache. */
export type CacheUsage = { entries: number; bytes: number }

type Entry = {
  pipe: ResponsePipe
  hold: Disposable
  /** The directory of its repository. */
  directory: string
  expiresAt: number
  /** Whether it was requested more than once. */
  isRepeated: boolean
  isInFile: boolean
}

// A response that would evict most others is not worth storing.
const maxShare = 1 / 2
// Each file holds a descriptor open.
const maxFiles = 256
// Smaller responses stay in memory: a file would cost more.
const smallBytes = 64 * 1024
const maxMemoryBytes = 8 * 1024 * 1024
// Approximate overhead of an entry.
const entryBytes = 6 * 1024
// Clients that fetch at the same time, after a push for example, do not all arrive at once.
const firstAgeMs = 10_000

/**
 * Stores responses for reuse. A response requested once is kept for seconds and only while memory allows; one requested
 * again is kept until it has not been used for `maxAgeMs`. The least recently used entry is evicted first.
 */
export function createCacheStore({ maxBytes, maxAgeMs, clock }: Options) {
  const entries = new Map<string, Entry>()
  const maxEntryBytes = Math.floor(maxBytes * maxShare)
  let bytes = 0
  let memoryBytes = 0
  let files = 0

  function count({ pipe, isInFile }: Entry, times: 1 | -1): void {
    bytes += times * pipe.size()
    memoryBytes += times * (entryBytes + (isInFile ? 0 : pipe.size()))
    if (isInFile) files += times
  }

  function drop(key: string): void {
    const entry = entries.get(key)
    if (!entry) return
    entries.delete(key)
    count(entry, -1)
    entry.hold[Symbol.dispose]()
  }

  function evict(): void {
    for (const [key, { isInFile }] of entries) {
      const isOver = isInFile ? files > maxFiles : memoryBytes > maxMemoryBytes
      if (isOver || bytes > maxBytes) drop(key)
    }
  }

  /** Moves a response that was requested again to a file, unless it is small. */
  async function keep(key: string, entry: Entry): Promise<void> {
    entry.isRepeated = true
    if (entry.isInFile || entry.pipe.size() <= smallBytes) return
    // When the disk is full, it stays in memory.
    const isInFile = await entry.pipe.store()
    if (entries.get(key) !== entry) return
    count(entry, -1)
    entry.isInFile = isInFile
    count(entry, 1)
    evict()
  }

  return {
    maxEntryBytes,

    /** Stores a complete response, unless it is empty or too large. */
    async put(
      { id, directory }: CacheKey,
      pipe: ResponsePipe,
      { isRepeated }: { isRepeated: boolean },
    ): Promise<void> {
      if (pipe.size() === 0 || pipe.size() > maxEntryBytes) return
      const isLarge = pipe.size() > smallBytes
      const isInFile = isLarge && (isRepeated || pipe.hasFile()) && (await pipe.store())
      // The disk is full; large responses would soon fill the memory, too.
      if (pipe.hasFile() && !isInFile) return
      drop(id)
      const ageMs = isRepeated ? maxAgeMs : Math.min(maxAgeMs, firstAgeMs)
      const expiresAt = clock.now() + ageMs
      const entry = { pipe, hold: pipe.hold(), directory, expiresAt, isRepeated, isInFile }
      entries.set(id, entry)
      count(entry, 1)
      evict()
    },

    find(key: string): ResponsePipe | undefined {
      const entry = entries.get(key)
      if (!entry) return undefined
      if (entry.expiresAt <= clock.now()) {
        drop(key)
        return undefined
      }
      // Reinserted, so the map is in order of last use.
      entries.delete(key)
      entries.set(key, entry)
      entry.expiresAt = clock.now() + maxAgeMs
      if (!entry.isRepeated) void keep(key, entry)
      return entry.pipe
    },

    /** Drops expired responses and those of deleted repositories. */
    async sweep(): Promise<void> {
      for (const [key, { directory, expiresAt }] of [...entries]) {
        const isThere = await stat(directory).then(
          () => true,
          () => false,
        )
        if (!isThere || expiresAt <= clock.now()) drop(key)
      }
    },

    clear: () => [...entries.keys()].forEach(drop),

    count: (): CacheUsage => ({ entries: entries.size, bytes }),
  }
}
