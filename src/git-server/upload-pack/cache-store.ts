import { stat } from 'node:fs/promises'
import type { Clock } from '../../base/clock.ts'
import type { AnswerSpool } from './response-pipe.ts'

type Options = {
  /** Bytes that all together may take. */
  maxBytes: number
  maxAgeMs: number
  clock: Clock
}

/** How much is kept. */
export type Kept = { entries: number; bytes: number }

type Entry = {
  spool: AnswerSpool
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
export function createKeptAnswers({ maxBytes, maxAgeMs, clock }: Options) {
  const entries = new Map<string, Entry>()
  let bytes = 0
  let memoryBytes = 0
  let files = 0

  function count({ spool, isInFile }: Entry, times: 1 | -1): void {
    bytes += times * spool.size()
    memoryBytes += times * (entryBytes + (isInFile ? 0 : spool.size()))
    if (isInFile) files += times
  }

  function drop(key: string): void {
    const entry = entries.get(key)
    if (!entry) return
    entries.delete(key)
    count(entry, -1)
    entry.held[Symbol.dispose]()
  }

  function makeRoom(): void {
    for (const [key, { isInFile }] of entries) {
      const isOver = isInFile ? files > filesMost : memoryBytes > memoryBytesMost
      if (isOver || bytes > maxBytes) drop(key)
    }
  }

  /** Has what was kept for a moment stay. */
  async function keepOn(key: string, entry: Entry): Promise<void> {
    entry.isRepeated = true
    entry.until = clock.now() + maxAgeMs
    if (entry.isInFile || entry.spool.size() <= smallBytes) return
    // Where the disk has no room, it stays in memory.
    const isInFile = await entry.spool.store()
    if (entries.get(key) !== entry) return
    count(entry, -1)
    entry.isInFile = isInFile
    count(entry, 1)
    makeRoom()
  }

  return {
    /** Whether an answer of a size is one to keep. */
    takes: (size: number) => size > 0 && size <= maxBytes * shareMost,

    /** Keeps an answer that is whole and has ended. */
    async put(
      key: string,
      spool: AnswerSpool,
      { directory, isRepeated }: { directory: string; isRepeated: boolean },
    ): Promise<void> {
      const isLarge = spool.size() > smallBytes
      const isInFile = isLarge && (isRepeated || spool.hasFile()) && (await spool.store())
      // The disk is full, and so would memory soon be.
      if (spool.hasFile() && !isInFile) return
      drop(key)
      const ageMs = isRepeated ? maxAgeMs : Math.min(maxAgeMs, firstAgeMs)
      const until = clock.now() + ageMs
      const entry = { spool, held: spool.hold(), directory, until, isRepeated, isInFile }
      entries.set(key, entry)
      count(entry, 1)
      makeRoom()
    },

    find(key: string): AnswerSpool | undefined {
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
      return entry.spool
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
