import { mkdir, readdir, stat, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import { ignoreAbsence } from '../../base/absence.ts'
import type { FaultPoint } from '../../base/fault-points.ts'
import { gitCommands, maintenanceConfig } from '../process/commands.ts'
import { backgroundCpuSeconds, type Ended, type Git, GitError } from '../process/git-process.ts'
import { readAllRefs } from '../refs/refs.ts'
import { renewRepositoryVersion } from '../refs/repository-version.ts'
import { dropExpired, expiredFolder, hasExpired, restoreExpired } from './expired-packs.ts'

/** Statistics of a repository's packs; `largest` is the size of the largest file. */
export type Storage = { packs: number; bytes: number; largest: number; hasCruft: boolean }

/** `refs` packs refs only, `quick` merges small packs, `full` merges all packs and prunes. */
export type MaintenanceExtent = 'refs' | 'quick' | 'full'

type Options = {
  git: Git
  extent: MaintenanceExtent
  /** Whether the server alone writes packed refs, and there are no others. */
  hasOwnRefs?: boolean
  /** Objects unreachable since before this time, in milliseconds since the epoch, are pruned. */
  expireBefore: number
  memoryMaxBytes: number
  /** Called with the end of each git process. */
  watch: (ended: Promise<Ended>) => void
  /** Waits for current changes of the repository to end; false when that takes too long. */
  waitForOtherHolds: () => Promise<boolean>
  faultPoint: FaultPoint
  signal: AbortSignal
}

type Step = { isIdle: boolean; input?: string }

// Effectively unlimited: only the disk limits what a repack writes.
const fileMaxBytes = 2 ** 50
const repackTries = 5
const maxPacksCounted = 200
// Pack index version 2: a table of 256 counts and two hashes; an id, a checksum and an offset for each object.
const indexBytes = 1072
const indexBytesPerObject = 28

/**
 * Optimizes a repository: packed refs, few packs with a multi-pack index and a bitmap, a commit graph. Fetches and pushes
 * may run meanwhile. Throws when git fails, or the signal is aborted.
 */
export async function maintain(directory: string, options: Options): Promise<void> {
  const { extent, hasOwnRefs, faultPoint } = options
  // Not at idle priority: pushes may wait for the locks that this holds.
  if (!hasOwnRefs) await run(gitCommands.packRefs(directory), options, { isIdle: false })
  faultPoint('maintenance.refs-packed')
  if (extent === 'refs') return
  const graph = extent === 'full' ? gitCommands.rewriteGraph : gitCommands.extendGraph
  await run(graph(directory), options, { isIdle: true })
  faultPoint('maintenance.graphed')
  if ((await readStorage(directory)).packs === 0) return
  // Invalidates cached responses, also for an administrator who has repaired damaged files. It comes before anything is
  // removed, which makes sure that it can be done afterwards.
  await renewRepositoryVersion(directory)
  if (extent === 'full') return repackAll(directory, options)
  await repack(gitCommands.repack(directory), options)
  faultPoint('maintenance.repacked')
}

/** Counts packs, and the bytes of all files in their folder. */
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
 * Counts the objects added since the last maintenance, by the sizes of pack indexes (gitformat-pack(5)); infinite when
 * there are too many packs to check.
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

// A concurrent push that found an object before it was pruned may still point a ref to it.
async function restoreIfNeeded(
  directory: string,
  known: Map<string, string>,
  options: Options,
): Promise<void> {
  const input = [...new Set(known.values())].map((id) => `^${id}\n`).join('')
  const check = () => run(gitCommands.checkRefs(directory), options, { isIdle: true, input })
  try {
    if (await options.waitForOtherHolds()) await check()
    else await restoreExpired(directory)
  } catch (error) {
    await restoreExpired(directory)
    if (!(error instanceof GitError)) throw error
    await check()
  }
}

// To git, an object is as old as its pack, so an object that was reachable a moment ago would be pruned with an old pack.
// Cruft packs record the age of each object, and stay as they are.
async function makePacksYoung(directory: string): Promise<void> {
  const folder = join(directory, 'objects', 'pack')
  const names = new Set(await readdir(folder))
  const now = new Date()
  for (const name of names) {
    if (!name.endsWith('.pack') || names.has(name.replace(/\.pack$/, '.mtimes'))) continue
    await utimes(join(folder, name), now, now)
  }
}

// When a push adds a pack while git lists packs, git may miss it, and cannot write the bitmap. Nothing has been removed
// then, and the next try includes the pack.
async function repack(command: string[], options: Options): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      return await run(command, options, { isIdle: true })
    } catch (error) {
      const isRace = error instanceof GitError && /full closure/.test(error.message)
      if (!isRace || tries === repackTries) throw error
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
