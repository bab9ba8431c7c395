import { gitCommands } from '../process/commands.ts'
import { type Git, GitError } from '../process/git-process.ts'

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
