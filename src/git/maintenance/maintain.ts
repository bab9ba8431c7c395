import { mkdir, readdir, stat, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import { ignoreAbsence } from '../../base/absence.ts'
import type { FaultPoint } from '../../base/fault-points.ts'
import { gitCommands, maintenanceConfig } from '../process/commands.ts'
import { backgroundCpuSeconds, type Ended, type Git, GitError } from '../process/git-process.ts'
import { readAllRefs } from '../refs/refs.ts'
import { renewRepositoryVersion } from '../refs/repository-version.ts'
import { dropExpired, expiredFolder, hasExpired, restoreExpired } from './expired-packs.ts'

/** What a repository's objects are kept in. */
export type Storage = { packs: number; bytes: number; largest: number; hasCruft: boolean }

/** `refs` packs refs alone, `quick` unites small packs, `full` unites all and prunes. */
export type MaintenanceExtent = 'refs' | 'quick' | 'full'

type Options = {
  git: Git
  extent: MaintenanceExtent
  /** Objects that no ref has led to since then, in milliseconds since the epoch, are pruned. */
  expireBefore: number
  memoryMaxBytes: number
  /** Called with the end of each git process. */
  watch: (ended: Promise<Ended>) => void
  /** Waits until whoever changes the repository now has ended; false when that takes too long. */
  untilOthersLeft: () => Promise<boolean>
  faultPoint: FaultPoint
  signal: AbortSignal
}

type Step = { isIdle: boolean; input?: string }

// Git wants both limits; what a repack writes is limited by the disk alone.
const fileMaxBytes = 2 ** 50
const repackTries = 5
const maxPacksCounted = 200
// Version 2: a table of 256 counts and two hashes; an id, a checksum and an offset for each object.
const indexBytes = 1072
const indexBytesPerObject = 28

/**
 * Makes a repository quick to read again: refs in one file, few packs with an index and a bitmap of all,
 * a graph of commits. Others may fetch and push meanwhile. Throws when git fails, or at the signal.
 */
export async function maintain(directory: string, options: Options): Promise<void> {
  const { extent, faultPoint } = options
  // A push may want the same locks, so this must not wait for everybody else.
  await run(gitCommands.packRefs(directory), options, { isIdle: false })
  faultPoint('maintenance.refs-packed')
  if (extent === 'refs') return
  const graph = extent === 'full' ? gitCommands.rewriteGraph : gitCommands.extendGraph
  await run(graph(directory), options, { isIdle: true })
  faultPoint('maintenance.graphed')
  if ((await readStorage(directory)).packs === 0) return
  // Whoever has mended files that were damaged does this next: no answer from before is then given again. And before
  // anything is taken away, so that it is known to be possible after.
  await renewRepositoryVersion(directory)
  if (extent === 'full') return repackAll(directory, options)
  await repack(gitCommands.repack(directory), options)
  faultPoint('maintenance.repacked')
}

/** Counts packs, and the bytes of all files beside them. */
export async function readStorage(directory: string): Promise<Storage> {
  const folder = join(directory, 'objects', 'pack')
  const names = await readdir(folder).catch((): string[] => [])
  const sizes = await Promise.all(
    names.map((name) =>
      stat(join(folder, name)).then(
        ({ size }) => size,
        () => 0, // Packs of a live repository come and go.
      ),
    ),
  )
  return {
    packs: names.filter((name) => name.endsWith('.pack')).length,
    bytes: sizes.reduce((sum, size) => sum + size, 0),
    largest: Math.max(0, ...sizes),
    hasCruft: names.some((name) => name.endsWith('.mtimes')),
  }
}

/**
 * The number of objects added since the last maintenance, computed from the sizes of pack indexes (gitformat-pack(5));
 * infinite when there are too many packs to read the size of each.
 */
export async function countNewObjects(directory: string): Promise<number> {
  const folder = join(directory, 'objects', 'pack')
  const names = (await readdir(folder).catch(() => [])).filter((name) => name.endsWith('.idx'))
  if (names.length > maxPacksCounted) return Number.POSITIVE_INFINITY
  const lastMaintained = await stat(join(folder, 'multi-pack-index')).catch(ignoreAbsence)
  const since = lastMaintained?.mtimeMs ?? 0
  const indexes = await Promise.all(
    names.map((name) => stat(join(folder, name)).catch(ignoreAbsence)),
  )
  const bytes = indexes.map((index) => (index && index.mtimeMs > since ? index.size : 0))
  return bytes.reduce((sum, size) => sum + Math.max(0, size - indexBytes) / indexBytesPerObject, 0)
}

async function repackAll(directory: string, options: Options): Promise<void> {
  const { expireBefore, faultPoint } = options
  await restoreExpired(directory)
  const known = await readAllRefs(directory)
  await makePacksYoung(directory)
  const expired = join(directory, expiredFolder)
  await mkdir(expired, { recursive: true })
  const seconds = String(Math.floor(expireBefore / 1000))
  try {
    await repack(gitCommands.repackAll(directory, seconds, join(expired, 'pack')), options)
  } finally {
    await renewRepositoryVersion(directory)
  }
  faultPoint('maintenance.repacked')
  if (await hasExpired(directory)) {
    faultPoint('maintenance.expired')
    await restoreIfNeeded(directory, known, options)
  }
  await dropExpired(directory)
  faultPoint('maintenance.pruned')
}

// A push that saw an object before it went may have a ref lead there, until that push has ended.
async function restoreIfNeeded(
  directory: string,
  known: Map<string, string>,
  options: Options,
): Promise<void> {
  const input = [...new Set(known.values())].map((id) => `^${id}\n`).join('')
  const check = () => run(gitCommands.checkRefs(directory), options, { isIdle: true, input })
  try {
    if (await options.untilOthersLeft()) await check()
    else await restoreExpired(directory)
  } catch (error) {
    await restoreExpired(directory)
    if (!(error instanceof GitError)) throw error
    await check()
  }
}

// Git takes an object to be as old as its pack: what a ref led to a moment ago would be pruned with an old
// one. The pack of what no ref leads to tells the age of each, and stays as it is.
async function makePacksYoung(directory: string): Promise<void> {
  const folder = join(directory, 'objects', 'pack')
  const names = new Set(await readdir(folder))
  const now = new Date()
  for (const name of names) {
    if (!name.endsWith('.pack') || names.has(name.replace(/\.pack$/, '.mtimes'))) continue
    await utimes(join(folder, name), now, now)
  }
}

// A pack whose push ends just when git looks around is in none of git's lists, and so the index of all packs
// cannot have a bitmap. Nothing has been taken away then, and the next time the pack is in a list.
async function repack(command: string[], options: Options): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      return await run(command, options, { isIdle: true })
    } catch (error) {
      const isOvertaken = error instanceof GitError && /full closure/.test(error.message)
      if (!isOvertaken || tries === repackTries) throw error
    }
  }
}

async function run(command: string[], options: Options, { isIdle, input }: Step): Promise<void> {
  const { git, memoryMaxBytes, signal, watch } = options
  signal.throwIfAborted()
  await using child = await git.start(command, {
    config: maintenanceConfig,
    limits: { memoryMaxBytes, fileMaxBytes, cpuMaxSeconds: backgroundCpuSeconds },
    isIdle,
  })
  watch(child.ended)
  const stop = () => void child[Symbol.asyncDispose]()
  signal.addEventListener('abort', stop)
  child.stdin.end(input)
  child.stdout.resume()
  const ended = await child.ended.finally(() => signal.removeEventListener('abort', stop))
  signal.throwIfAborted()
  if (ended.exitCode !== 0) throw new GitError(command[1] ?? '', ended)
}
