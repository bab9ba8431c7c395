import { mkdir, readdir, stat, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import { ignoreAbsence } from '#base/absence.ts'
import type { FaultPoint } from '#base/fault-points.ts'
import { type MainlinePack, packMainline, releaseMainline } from '../clone-packs/pack-objects.ts'
import { recordClonePacks } from '../clone-packs/record-clone-packs.ts'
import { gitCommands } from '../process/commands.ts'
import { maintenanceConfig } from '../process/git-config.ts'
import { backgroundCpuSeconds, type Ended, type Git, GitError } from '../process/git-process.ts'
import { isHiddenRef } from '../refs/ref-name.ts'
import { readAllRefs } from '../refs/refs.ts'
import { renewRepositoryVersion } from '../refs/repository-version.ts'
import { dropExpired, expiredFolder, hasExpired, restoreExpired } from './leftovers.ts'

/** Statistics of a repository's packs; `largest` is the size of the largest file. */
export type Storage = { packs: number; bytes: number; largest: number; hasCruft: boolean }

/** `refs` packs refs only, `quick` merges small packs, `full` merges all packs and prunes. */
export type MaintenanceExtent = 'refs' | 'quick' | 'full'

type Options = {
  git: Git
  extent: MaintenanceExtent
  /** Whether it is a cache: only the server writes its refs, and nothing is lost with it. */
  isCache?: boolean
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

type StepOptions = Pick<Options, 'git' | 'memoryMaxBytes' | 'signal' | 'watch'>
type Step = { isIdle: boolean; input?: string }

// Effectively unlimited: only the disk limits what a repack writes.
const fileMaxBytes = 2 ** 50
const repackTries = 5
const maxPacksCounted = 200
// Smaller repositories are cloned by git: see stored-clones.ts.
const mainlineMinBytes = 1024 * 1024
// Pack index version 2: a table of 256 counts and two hashes; an id, a checksum and an offset for each object.
const indexBytes = 1072
const indexBytesPerObject = 28

/**
 * Bits for each path in the filters of a commit graph. A usual commit changes few paths, and in a filter of few bits a
 * path may depend on one or two of them: with Git's 10, a quarter of all commits pass for some paths. Git has a variable
 * for it, which its tests use, but no setting. All layers of a graph have the number of the first one.
 */
const graphVariables = { GIT_TEST_BLOOM_SETTINGS_BITS_PER_ENTRY: '64' }

/** Objects of a cache were pruned. */
export type Pruned = {
  /** Whether its refs, also those that are new since, have all their objects. */
  isComplete: () => Promise<boolean>
}

/**
 * Optimizes a repository: packed refs, few packs with a multi-pack index and a bitmap, a commit graph. Fetches and pushes
 * may run meanwhile. In a cache, pruned objects are gone, and it is up to the caller to check that nothing needs them.
 * Throws when git fails, or the signal is aborted.
 */
export async function maintain(directory: string, options: Options): Promise<Pruned | undefined> {
  const { extent, isCache, faultPoint } = options
  // Not at idle priority: pushes may wait for the locks that this holds.
  if (!isCache) await run(gitCommands.packRefs(directory), options, { isIdle: false })
  faultPoint('maintenance.refs-packed')
  if (extent === 'refs') return undefined
  const graph = extent === 'full' ? gitCommands.rewriteGraph : gitCommands.extendGraph
  await run(graph(directory), options, { isIdle: true })
  faultPoint('maintenance.graphed')
  if ((await measurePacks(directory)).packs === 0) return undefined
  // Invalidates cached responses, also for an administrator who has repaired damaged files. It comes before anything is
  // removed, which makes sure that it can be done afterwards.
  await renewRepositoryVersion(directory)
  if (extent === 'full') return repackAll(directory, options)
  const refs = await readAllRefs(directory)
  await repack(gitCommands.repack(directory), options)
  faultPoint('maintenance.repacked')
  await recordPacks(directory, { refs }, options)
  return undefined
}

/** Writes one index of all packs with a bitmap, and a commit graph. Throws like `maintain`. */
export async function indexPacks(directory: string, options: StepOptions): Promise<void> {
  await run(gitCommands.extendGraph(directory), options, { isIdle: true })
  const refs = await readAllRefs(directory)
  await repack(gitCommands.indexPacks(directory), options)
  await recordPacks(directory, { refs }, options)
}

/** Counts packs, and the bytes of all files in their folder. */
export async function measurePacks(directory: string): Promise<Storage> {
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

async function repackAll(directory: string, options: Options): Promise<Pruned | undefined> {
  const { expireBefore, isCache, faultPoint } = options
  await restoreExpired(directory)
  const known = await readAllRefs(directory)
  await makePacksYoung(directory)
  const expired = join(directory, expiredFolder)
  await mkdir(expired, { recursive: true })
  const seconds = String(Math.floor(expireBefore / 1000))
  let mainline: MainlinePack | undefined
  await releaseMainline(directory)
  try {
    mainline = await packMainlineOf(directory, known, options)
    faultPoint('maintenance.mainline-packed')
    await repack(gitCommands.repackAll(directory, seconds, join(expired, 'pack')), options)
  } finally {
    await renewRepositoryVersion(directory)
    await releaseMainline(directory)
  }
  faultPoint('maintenance.repacked')
  const isPruned = await hasExpired(directory)
  if (isPruned) {
    faultPoint('maintenance.expired')
    if (!isCache) await restoreIfNeeded(directory, known, options)
  }
  await dropExpired(directory)
  faultPoint('maintenance.pruned')
  await recordPacks(directory, { refs: known, mainline }, options)
  return isPruned ? { isComplete: () => isComplete(directory, known, options) } : undefined
}

async function isComplete(
  directory: string,
  known: Map<string, string>,
  options: Options,
): Promise<boolean> {
  try {
    await checkSince(directory, known, options)
    return true
  } catch (error) {
    if (error instanceof GitError && error.isRefusal) return false
    throw error
  }
}

/** Fails when a ref has not all its objects, except for what known values of refs lead to. */
function checkSince(directory: string, known: Map<string, string>, options: Options) {
  const input = [...new Set(known.values())].map((id) => `^${id}\n`).join('')
  return run(gitCommands.checkRefs(directory), options, { isIdle: true, input })
}

// A concurrent push that found an object before it was pruned may still point a ref to it.
async function restoreIfNeeded(
  directory: string,
  known: Map<string, string>,
  options: Options,
): Promise<void> {
  const check = () => checkSince(directory, known, options)
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
async function repack(command: string[], options: StepOptions): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      return await run(command, options, { isIdle: true })
    } catch (error) {
      const isRace = error instanceof GitError && /full closure/.test(error.message)
      if (!isRace || tries === repackTries) throw error
    }
  }
}

/**
 * Separates the objects of the default branch, when commits that were overwritten are retained: clones must not get
 * these, so that they could not be sent a pack of all. In a cache, the node that has its refs decides about packs.
 */
async function packMainlineOf(
  directory: string,
  refs: ReadonlyMap<string, string>,
  options: Options,
): Promise<MainlinePack | undefined> {
  const { isCache, git, signal } = options
  if (isCache || ![...refs.keys()].some(isHiddenRef)) return undefined
  if ((await measurePacks(directory)).bytes < mainlineMinBytes) return undefined
  signal.throwIfAborted()
  return await packMainline(directory, refs, git, startOptions(options, { isIdle: true }))
}

async function recordPacks(
  directory: string,
  { refs, mainline }: { refs: ReadonlyMap<string, string>; mainline?: MainlinePack | undefined },
  options: StepOptions,
): Promise<void> {
  const visible = [...refs].filter(([name]) => !isHiddenRef(name))
  const tips = new Set(visible.map(([, id]) => id))
  options.signal.throwIfAborted()
  const starting = startOptions(options, { isIdle: true })
  await recordClonePacks(directory, { tips, mainline }, options.git, starting)
}

function startOptions({ memoryMaxBytes }: StepOptions, { isIdle }: Pick<Step, 'isIdle'>) {
  return {
    config: maintenanceConfig,
    variables: graphVariables,
    limits: { memoryMaxBytes, fileMaxBytes, cpuMaxSeconds: backgroundCpuSeconds },
    isIdle,
  }
}

async function run(command: string[], options: StepOptions, step: Step): Promise<void> {
  const { git, signal, watch } = options
  signal.throwIfAborted()
  await using child = await git.start(command, startOptions(options, step))
  watch(child.ended)
  const stop = () => void child[Symbol.asyncDispose]()
  signal.addEventListener('abort', stop)
  child.stdin.end(step.input)
  child.stdout.resume()
  const ended = await child.ended.finally(() => signal.removeEventListener('abort', stop))
  signal.throwIfAborted()
  if (ended.exitCode !== 0) throw new GitError(command[1] ?? '', ended)
}
