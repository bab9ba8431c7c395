import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { createKeyedMutex } from '#base/concurrency/keyed-mutex.ts'
import { forEachConcurrently } from '#base/for-each-concurrently.ts'
import type { Log } from '#base/log.ts'
import { Problem } from '#base/problem.ts'
import type { FreeSpace } from '#config/free-space.ts'
import { closeReadersOf } from '#git/process/process-pool.ts'
import type { Cache } from './cache.ts'

/** Evicts the least recently used directories of a cache, except those in use by running processes. */
export type CacheEviction = {
  /** Evicts until the cache is within its limit, and twice the minimum free space is left on the disk. */
  sweep: () => Promise<void>
  /** Tries to free a number of bytes beyond the minimum. */
  reclaim: (bytes: number) => Promise<void>
  /**
   * Frees space for files of the cache, and reserves it until disposed. Reads may use the minimum free space, so that they
   * are the last to fail. Throws `storage_full`.
   */
  reserve: (bytes: number) => Promise<Disposable>
}

type Dependencies = {
  cache: Pick<Cache, 'evict' | 'lastUse'>
  directories: { pathOf: (id: string) => string; list: () => Promise<string[]> }
  freeSpace: Pick<FreeSpace, 'measure'>
  /** Bytes that all directories may take; undefined for all but a part of the disk. */
  maxBytes: number | undefined
  log: Log
}

type Cached = { id: string; bytes: number; lastUse: number }

/** Which directories may go, by performance.now(), and whether idle readers of objects are ended for it. */
type Terms = { usedBefore: number; endsReaders: boolean }

// Within this time, what has opened a directory has started its git, has ended, or opens the directory again before.
const recentMs = { sweep: 60_000, onDemand: 5000 }
// How long requests wait for directories that are still in use.
const patienceMs = 10_000
const pauseMs = 500
const maxConcurrentReads = 8

export function createCacheEviction(dependencies: Dependencies): CacheEviction {
  const { cache, directories, freeSpace, log } = dependencies
  const maxBytes = dependencies.maxBytes ?? Number.POSITIVE_INFINITY
  const serialize = createKeyedMutex()
  let reservedBytes = 0
  /** All directories together, as measured last, with what was reserved since. */
  let usedBytes = 0
  let futileBefore = Number.NEGATIVE_INFINITY

  async function missingFor(bytes: number): Promise<number> {
    const { freeBytes, minFreeBytes } = await freeSpace.measure()
    return minFreeBytes + reservedBytes + bytes - freeBytes
  }

  /** Removes directories until no bytes are missing; true when more may be removed in a moment. */
  async function remove(missing: () => Promise<number>, terms: Terms): Promise<boolean> {
    if ((await missing()) <= 0) return false
    const all = await measureAll(dependencies)
    usedBytes = all.reduce((sum, { bytes }) => sum + bytes, 0)
    let excessBytes = await missing()
    let mayFreeMoreSoon = false
    let commands = await readCommands()
    for (const { id, bytes, lastUse } of all.sort((a, b) => a.lastUse - b.lastUse)) {
      if (excessBytes <= 0) return false
      const path = directories.pathOf(id)
      if (lastUse < terms.usedBefore && terms.endsReaders && commands.includes(path)) {
        await closeReadersOf(path)
        commands = await readCommands()
      }
      const isFree = lastUse < terms.usedBefore && !commands.includes(path)
      if (isFree && (await cache.evict(id, lastUse))) {
        log.info({ repositoryId: id, bytes }, 'cached repository removed')
        usedBytes -= bytes
        excessBytes -= bytes
      } else mayFreeMoreSoon = true
    }
    return mayFreeMoreSoon
  }

  /** Removes directories as soon as they are out of use, until no bytes are missing or `isEnough`. */
  async function removeNow(missing: () => Promise<number>, isEnough = async () => false) {
    const deadline = performance.now() + patienceMs
    for (;;) {
      const mayFreeMoreSoon = await serialize('', async () => {
        if (performance.now() < futileBefore) return false
        const usedBefore = performance.now() - recentMs.onDemand
        const mayFreeMore = await remove(missing, { usedBefore, endsReaders: true })
        // Measuring everything for each request would take long.
        if (!mayFreeMore && (await missing()) > 0) futileBefore = performance.now() + pauseMs
        return mayFreeMore
      })
      if (!mayFreeMoreSoon || performance.now() > deadline || (await isEnough())) return
      await sleep(pauseMs)
    }
  }

  return {
    async sweep() {
      const { minFreeBytes } = await freeSpace.measure()
      await serialize('', async () => {
        // Whether this is too much is known only once it is measured.
        if (maxBytes < Number.POSITIVE_INFINITY) usedBytes = Number.POSITIVE_INFINITY
        const missing = async () => Math.max(await missingFor(minFreeBytes), usedBytes - maxBytes)
        const usedBefore = performance.now() - recentMs.sweep
        await remove(missing, { usedBefore, endsReaders: false })
      })
    },

    reclaim: (bytes) => removeNow(() => missingFor(bytes)),

    async reserve(bytes) {
      const isEnough = async () => (await freeSpace.measure()).freeBytes >= bytes
      reservedBytes += bytes
      usedBytes += bytes
      const release = () => {
        reservedBytes -= bytes
      }
      try {
        const missing = async () => Math.max(await missingFor(0), usedBytes - maxBytes)
        await removeNow(missing, isEnough)
        if (!(await isEnough())) throw cacheFull()
      } catch (error) {
        release()
        throw error
      }
      return { [Symbol.dispose]: release }
    },
  }
}

function cacheFull(): Problem {
  const detail =
    'The disk of this server has too little space for the repository, and what else it has cached is in use; try again.'
  return new Problem('storage_full', detail, { retryAfterSeconds: 5 })
}

async function measureAll({ cache, directories }: Dependencies): Promise<Cached[]> {
  const all: Cached[] = []
  await forEachConcurrently(maxConcurrentReads, await directories.list(), async (id) => {
    const bytes = await packBytes(join(directories.pathOf(id), 'objects', 'pack'))
    all.push({ id, bytes, lastUse: cache.lastUse(id) })
  })
  return all
}
async function packBytes(folder: string): Promise<number> {
  const names = await readdir(folder).catch((): string[] => [])
  const sizes = names.map((name) =>
    stat(join(folder, name)).then(
      ({ size }) => size,
      () => 0,
    ),
  )
  return (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0)
}

/** The command lines of all processes, also of other programs that use the data directory: proc(5). */
async function readCommands(): Promise<string> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const commands = await Promise.all(
    pids.map((pid) => readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')),
  )
  return commands.join('\n')
}
