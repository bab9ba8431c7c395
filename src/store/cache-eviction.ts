import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { forEachConcurrently } from '../base/for-each-concurrently.ts'
import type { Log } from '../base/log.ts'
import type { FreeSpace } from '../config/free-space.ts'
import type { Cache } from './cache.ts'

type Dependencies = {
  cache: Pick<Cache, 'remove' | 'lastUse'>
  directories: { pathOf: (id: string) => string; list: () => Promise<string[]> }
  freeSpace: Pick<FreeSpace, 'measure'>
  /** Bytes that all directories may take; undefined for all but a part of the disk. */
  maxBytes: number | undefined
  log: Log
}

type Cached = { id: string; bytes: number; lastUse: number }

// A request that has opened a directory starts its git, or is done, in this time.
const recentMs = 60_000
const maxConcurrentReads = 8

/**
 * Removes the directories that were not used for longest when all take more space than they may, or when the disk has
 * less than twice its minimum of free space. Those of running processes stay.
 */
export async function evict(dependencies: Dependencies): Promise<void> {
  const { cache, directories, freeSpace, maxBytes, log } = dependencies
  const { freeBytes, minFreeBytes } = await freeSpace.measure()
  const missingBytes = 2 * minFreeBytes - freeBytes
  if (missingBytes <= 0 && maxBytes === undefined) return
  const all = await measureAll(dependencies)
  const usedBytes = all.reduce((sum, { bytes }) => sum + bytes, 0)
  let excessBytes = Math.max(missingBytes, usedBytes - (maxBytes ?? Number.POSITIVE_INFINITY))
  if (excessBytes <= 0) return
  const commands = await readCommands()
  const usedSince = performance.now() - recentMs
  for (const { id, bytes, lastUse } of all.sort((a, b) => a.lastUse - b.lastUse)) {
    if (excessBytes <= 0) return
    const isInUse = lastUse >= usedSince || commands.includes(directories.pathOf(id))
    if (isInUse) continue
    await cache.remove(id, { usedSince })
    log.info({ repositoryId: id, bytes }, 'cached repository removed')
    excessBytes -= bytes
  }
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
