import { link, mkdir, readFile, rename, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { absentAs, isAbsence } from '#base/absence.ts'
import { sync } from '#base/disk.ts'
import { gitCommands } from '../process/commands.ts'
import { type Ended, type Git, GitError } from '../process/git-process.ts'
import { hasPackedBelow } from './packed-refs.ts'
import { zeroId } from './ref-name.ts'
import { branchPrefix, readRefs } from './refs.ts'
import { toRawName } from './stored-ref.ts'

/** The new value of a ref, and its expected old value; all zeros mean that the ref does not exist. */
export type RefMove = {
  ref: string
  to: string
  from?: string
  /** A file with the new value, already synced, on the same file system: a single ref then moves without a git process. */
  draft?: string
}

type Options = {
  directory: string
  /** Called with the end of the git process. */
  watch: (ended: Promise<Ended>) => void
}

/**
 * Moves refs in one transaction, all or none: in this process where that is possible, else by git-update-ref(1). Throws a
 * GitError when git rejects it.
 */
export async function moveRefs(git: Git, options: Options, moves: RefMove[]): Promise<void> {
  const { directory } = options
  const [first, ...others] = moves
  if (first && others.length === 0 && (await moveRefInProcess(directory, first))) return
  const command = gitCommands.updateRefs(directory)
  await run(git, options, 'update-ref', command, moves.map(toLine).join(''))
}

/** Points HEAD at a branch, durably: git-symbolic-ref(1). Throws a GitError. */
export async function setDefaultBranch(git: Git, options: Options, branch: string): Promise<void> {
  const { directory } = options
  const command = gitCommands.setHead(directory, branchPrefix + branch)
  await run(git, options, 'symbolic-ref', command)
  // Git syncs refs, but not symbolic ones.
  await sync(join(directory, 'HEAD'))
  await sync(directory)
}

async function run(
  git: Git,
  { watch }: Options,
  name: string,
  command: readonly string[],
  input?: string,
): Promise<void> {
  await using child = await git.start(command)
  watch(child.ended)
  child.stdin.end(input)
  child.stdout.resume()
  const ended = await child.ended
  if (ended.exitCode !== 0) throw new GitError(name, ended)
}

function toLine({ ref, to, from }: RefMove): string {
  const words = to === zeroId ? ['delete', ref] : ['update', ref, to]
  return `${[...words, ...(from === undefined ? [] : [from === zeroId ? '""' : from])].join(' ')}\n`
}

/**
 * Creates or moves a ref as git does, without a git process: under its lock file, which becomes the ref. The draft stays.
 * Returns false, with no ref changed, where git has to decide: there is no draft; the lock is taken, or the ref has
 * another value, is symbolic, has a reflog, or has a folder in place of its file; a new ref is within another one, or
 * another one within it; also on a file system without hard links.
 */
export async function moveRefInProcess(
  directory: string,
  { ref, from, draft }: Omit<RefMove, 'to'>,
): Promise<boolean> {
  if (draft === undefined || from === undefined) return false
  const path = join(directory, ref)
  const lock = `${path}.lock`
  if (!(await takeLock(draft, lock))) return false
  let isMoved = false
  try {
    if ((await readValue(directory, ref)) !== from || (await hasLog(directory, ref))) return false
    if (from === zeroId && (await isInTheWay(directory, ref))) return false
    isMoved = await rename(lock, path).then(() => true, absentAs(false))
    return isMoved
  } finally {
    if (!isMoved) await rm(lock, { force: true })
  }
}

async function takeLock(draft: string, lock: string): Promise<boolean> {
  const take = () =>
    link(draft, lock).then(
      () => true,
      (error) => (isAbsence(error) ? undefined : false),
    )
  const isTaken = await take()
  if (isTaken !== undefined) return isTaken
  // Where the first part of a name is a ref, it has no folder.
  await mkdir(dirname(lock), { recursive: true }).catch(() => {})
  return (await take()) === true
}

/**
 * Whether there is a packed ref beside which one of this name cannot exist: `a` or `a/b/c` for `a/b`. A loose one needs no
 * look: `a` is a file, so that the lock `a/b.lock` has no folder, and for `a/b/c` there is a folder where the ref would be.
 */
async function isInTheWay(directory: string, ref: string): Promise<boolean> {
  const parts = ref.split('/')
  // None has fewer than three parts.
  const outer = parts.slice(3).map((_, index) => parts.slice(0, index + 3).join('/'))
  const values = await readRefs(directory, outer)
  if (outer.some((name) => values.get(name) !== zeroId)) return true
  // Git sorts an unsorted file.
  return (await hasPackedBelow(directory, `${toRawName(ref)}/`)) ?? true
}

/** The content of the ref's file, or its packed value; no other git can change either under the lock. */
async function readValue(directory: string, ref: string): Promise<string | undefined> {
  const loose = await readFile(join(directory, ref), 'latin1').catch(absentAs(undefined))
  return loose === undefined ? (await readRefs(directory, [ref])).get(ref) : loose.trimEnd()
}

async function hasLog(directory: string, ref: string): Promise<boolean> {
  return (await stat(join(directory, 'logs', ref)).catch(absentAs(undefined))) !== undefined
}
