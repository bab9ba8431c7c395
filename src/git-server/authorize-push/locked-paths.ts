import type { Principal } from '#access/principal.ts'
import { chunksOf } from '#base/chunks.ts'
import { printable } from '#base/format.ts'
import { Problem } from '#base/problem.ts'
import { abortAfter } from '#base/timeouts.ts'
import type { PlainSettings } from '#config/settings.ts'
import type { Database } from '#database/database.ts'
import type { Db } from '#database/schema.ts'
import { gitCommands } from '#git/process/commands.ts'
import { type Git, GitError } from '#git/process/git-process.ts'
import { zeroId } from '#git/refs/ref-name.ts'
import {
  branchPrefix,
  defaultBranchAfter,
  listBranches,
  type RefUpdate,
  readDefaultBranch,
  readRefs,
} from '#git/refs/refs.ts'
import type { LfsLocks } from '#repositories/lfs-locks.ts'
import { isHeadChosen } from '#repositories/repository-store.ts'
import type { Push } from '../push/push.ts'
import { openQuarantine, withPushLimits } from '../push/pushed-objects.ts'

type Dependencies = {
  db: Database
  git: Git
  lfsLocks: Pick<LfsLocks, 'listOthers'>
  settings: Pick<PlainSettings, 'pushMemoryMaxBytes'>
}

type Updates = { updates: RefUpdate[]; targets: ReadonlyMap<string, string> }

const maxNamed = 10
const maxSeconds = 600
// Others wait for the transaction. A push that is repeated is compared before it begins.
const maxSecondsInTransaction = 5

/**
 * Compares a push with the locks of its repository. A push changes a locked file if one of its new commits does, or if it
 * moves the default branch to a commit in which the file is another one. Other branches may move among the commits that the
 * repository had, so that everybody can rebase on what the owner of a lock pushed, and merge it.
 */
export function createLockedPaths(
  { db: database, git, lfsLocks, settings }: Dependencies,
  push: Push,
  { updates, targets }: Updates,
) {
  const { id, path: directory } = push.repository
  // Locked files that the push does not change.
  const untouched = new Set<string>()

  async function* changedPaths(signal: AbortSignal): AsyncGenerator<string, void> {
    const written = updates.filter(({ after }) => after !== zeroId)
    if (written.length === 0) return
    const scopedGit = await openQuarantine(withPushLimits(git, settings), push)
    const ids = written.map(({ after }) => after)
    yield* readPaths(scopedGit, gitCommands.listNewPaths(directory), ids, signal)
    const { before, after } = await moveOfDefaultBranch()
    if (before === undefined || after === undefined || after === before) return
    yield* readPaths(scopedGit, gitCommands.listChanges(directory, before, after), [], signal)
  }

  /** The tip of the default branch before and after the push, which may put another branch in its place. */
  async function moveOfDefaultBranch(): Promise<{
    before: string | undefined
    after: string | undefined
  }> {
    const moved = updates.map((update) => ({
      ...update,
      ref: targets.get(update.ref) ?? update.ref,
    }))
    const afterOf = (branch: string) =>
      moved.find(({ ref }) => ref === branchPrefix + branch)?.after
    const present = await readDefaultBranch(directory)
    const next = await defaultBranchAfter(present, moved, {
      isThere: async () => afterOf(present) !== zeroId,
      isChosen: () => isHeadChosen(database, id),
      listBranches: async () =>
        (await listBranches(directory)).filter((branch) => afterOf(branch) !== zeroId),
      ofEmpty: async () => undefined,
    })
    const tips = await readRefs(directory, [branchPrefix + present, branchPrefix + next])
    const tipOf = (branch: string) => tips.get(branchPrefix + branch)
    const after = afterOf(next) ?? tipOf(next)
    return { before: tipOf(present), after: after === zeroId ? undefined : after }
  }

  return {
    /** Throws `path_locked` when the push changes a file that another user has locked, and `git_limit_exceeded`. */
    async refuse(principal: Principal, db?: Db): Promise<void> {
      const owners = new Map<string, string>()
      for (const { path, username } of await lfsLocks.listOthers(principal, id, db))
        if (!untouched.has(path)) owners.set(path, username)
      if (owners.size === 0) return
      const touched = new Set<string>()
      const seconds = db ? maxSecondsInTransaction : maxSeconds
      using limit = abortAfter(seconds * 1000, tooLong(seconds))
      for await (const path of changedPaths(limit.signal)) {
        if (owners.has(path)) touched.add(path)
        if (touched.size > maxNamed) break
      }
      if (touched.size > 0) throw pathLocked([...touched].sort(), owners)
      for (const path of owners.keys()) untouched.add(path)
    },
  }
}

/** Reads the output of a command: paths that are each ended by a NUL. */
async function* readPaths(
  git: Git,
  command: readonly string[],
  ids: readonly string[],
  signal: AbortSignal,
): AsyncGenerator<string, void> {
  await using child = await git.start(command)
  child.stdin.end(ids.map((id) => `${id}\n`).join(''))
  let rest = ''
  for await (const chunk of chunksOf(child.stdout, signal)) {
    const paths = (rest + chunk.toString('latin1')).split('\0')
    rest = paths.pop() ?? ''
    for (const path of paths) yield Buffer.from(path, 'latin1').toString('utf8')
  }
  const ended = await child.ended
  // Git itself refuses an update from or to an object that is missing.
  if (ended.exitCode !== 0 && !/bad object/.test(ended.errorOutput))
    throw new GitError(command[1] ?? '', ended)
}

function tooLong(seconds: number): Problem {
  return new Problem(
    'git_limit_exceeded',
    `Comparing this push with locked files took longer than ${seconds} s; push it again, or fewer commits at a time.`,
  )
}

function pathLocked(paths: readonly string[], owners: ReadonlyMap<string, string>): Problem {
  const named = paths
    .slice(0, maxNamed)
    .map((path) => `"${printable(path)}" is locked by ${owners.get(path)}`)
  const more = paths.length > maxNamed ? ', and more files are locked' : ''
  return new Problem(
    'path_locked',
    `Only the owner of a lock may change its file: ${named.join(', ')}${more}. Ask for an unlock, and push again.`,
  )
}
