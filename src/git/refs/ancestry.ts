import { gitCommands } from '../process/commands.ts'
import { type Git, GitError } from '../process/git-process.ts'
import { zeroId } from './ref-name.ts'
import type { RefUpdate } from './refs.ts'

/** Whether a commit is another one, or in its history. False for objects that are not commits. */
export async function isAncestor(
  git: Pick<Git, 'run'>,
  directory: string,
  before: string,
  after: string,
): Promise<boolean> {
  if (before === after) return true
  const output = await unlessRefused(git.run(gitCommands.isAncestor(directory, before, after)))
  return output !== undefined
}

/** One of the best common ancestors of two commits; undefined when their histories are unrelated. */
export async function findMergeBase(
  git: Pick<Git, 'run'>,
  directory: string,
  ours: string,
  theirs: string,
): Promise<string | undefined> {
  const output = await unlessRefused(git.run(gitCommands.mergeBase(directory, ours, theirs)))
  return output?.trim()
}

/**
 * Whether a ref that clients see leads to a commit. All commits are listed until it is found: with `--not`, git relies on
 * the clocks of those who made them.
 */
export async function isReachable(
  git: Pick<Git, 'start'>,
  directory: string,
  id: string,
): Promise<boolean> {
  await using child = await git.start(gitCommands.listVisibleCommits(directory))
  child.stdin.end()
  let rest = ''
  for await (const chunk of child.stdout) {
    const lines: string = rest + chunk.toString('latin1')
    if (lines.includes(id)) return true
    rest = lines.slice(-id.length)
  }
  const ended = await child.ended
  if (ended.exitCode !== 0) throw ended.exceeded ?? new GitError('rev-list', ended)
  return false
}

async function unlessRefused(output: Promise<string>): Promise<string | undefined> {
  try {
    return await output
  } catch (error) {
    if (error instanceof GitError && error.isRefusal) return undefined
    throw error
  }
}

/** Whether all objects are there that the new values of refs lead to, except for what present refs lead to. */
export async function isConnected(
  git: Pick<Git, 'run'>,
  directory: string,
  updates: RefUpdate[],
): Promise<boolean> {
  const ids = updates.map(({ after }) => after).filter((id) => id !== zeroId)
  return ids.length === 0 || (await succeeds(git, gitCommands.checkNew(directory), ids))
}

/** Whether all objects are there that the new value of a ref leads to, except for what the old one leads to. */
export function isConnectedSince(
  git: Pick<Git, 'run'>,
  directory: string,
  { before, after }: RefUpdate,
): Promise<boolean> {
  return succeeds(git, gitCommands.checkSince(directory), [after, `^${before}`])
}

async function succeeds(
  git: Pick<Git, 'run'>,
  command: readonly string[],
  lines: string[],
): Promise<boolean> {
  try {
    await git.run(command, { input: lines.map((line) => `${line}\n`).join('') })
    return true
  } catch (error) {
    if (error instanceof GitError && error.isRefusal) return false
    throw error
  }
}
