import { stat } from 'node:fs/promises'
import type { Clock } from '../../base/clock.ts'
import type { ResponsePipe } from './response-pipe.ts'

type Options = {
  /** Bytes that all together may take. */
  maxBytes: number
  maxAgeMs: number
  clock: Clock
}

/** How much is kept. */
export type Kept = { entries: number; bytes: number }

type Entry = {
  pipe: ResponsePipe
  held: Disposable
  /** The directory of its repository. */
  directory: string
  until: number
  /** Whether it was asked for more than once. */
  isRepeated: boolean
  isInFile: boolean
}

// An answer that would push out most others is hardly worth it.
const shareMost = 1 / 2
// Each has a descriptor open.
const filesMost = 256
// A file would take more than what is as small as this.
const smallBytes = 64 * 1024
const memoryBytesMost = 8 * 1024 * 1024
// An entry without its answer, about.
const entryBytes = 6 * 1024
// Of those who come all at once, some come a moment late.
const firstAgeMs = 10_000

/**
 * Answers that may be given again. What was asked for once is kept for a moment, if there is memory for it, and what
 * was asked for again for long. Those go first that were not asked for the longest.
 */
export function createCacheStore({ maxBytes, maxAgeMs, clock }: Options) {
  const entries = new Map<string, Entry>()
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
    entry.held[Symbol.dispose]()
  }

  function makeWorkspace(): void {
    for (const [key, { isInFile }] of entries) {
      const isOver = isInFile ? files > filesMost : memoryBytes > memoryBytesMost
      if (isOver || bytes > maxBytes) drop(key)
    }
  }

  /** Has what was kept for a moment stay. */
  async function keepOn(key: string, entry: Entry): Promise<void> {
    entry.isRepeated = true
    entry.until = clock.now() + maxAgeMs
    if (entry.isInFile || entry.pipe.size() <= smallBytes) return
    // Where the disk has no room, it stays in memory.
    const isInFile = await entry.pipe.store()
    if (entries.get(key) !== entry) return
    count(entry, -1)
    entry.isInFile = isInFile
    count(entry, 1)
    makeWorkspace()
  }

  return {
    /** Whether an answer of a size is one to keep. */
    takes: (size: number) => size > 0 && size <= maxBytes * shareMost,

    /** Keeps an answer that is whole and has ended. */
    async put(
      key: string,
      pipe: ResponsePipe,
      { directory, isRepeated }: { directory: string; isRepeated: boolean },
    ): Promise<void> {
      const isLarge = pipe.size() > smallBytes
      const isInFile = isLarge && (isRepeated || pipe.hasFile()) && (await pipe.store())
      // The disk is full, and so would memory soon be.
      if (pipe.hasFile() && !isInFile) return
      drop(key)
      const ageMs = isRepeated ? maxAgeMs : Math.min(maxAgeMs, firstAgeMs)
      const until = clock.now() + ageMs
      const entry = { pipe, held: pipe.hold(), directory, until, isRepeated, isInFile }
      entries.set(key, entry)
      count(entry, 1)
      makeWorkspace()
    },

    find(key: string): ResponsePipe | undefined {
      const entry = entries.get(key)
      if (!entry) return undefined
      if (entry.until <= clock.now()) {
        drop(key)
        return undefined
      }
      // The one that was asked for last is the last in the map.
      entries.delete(key)
      entries.set(key, entry)
      if (!entry.isRepeated) void keepOn(key, entry)
      return entry.pipe
    },

    /** Drops what is too old and what is of repositories that are gone: nobody asks for it any more. */
    async sweep(): Promise<void> {
      for (const [key, { directory, until }] of [...entries]) {
        const isThere = await stat(directory).then(
          () => true,
          () => false,
        )
        if (!isThere || until <= clock.now()) drop(key)
      }
    },

    /** Drops all. */
    clear: () => [...entries.keys()].forEach(drop),

    count: (): Kept => ({ entries: entries.size, bytes }),
  }
}
