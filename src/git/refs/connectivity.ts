import { gitCommands } from '../process/commands.ts'
import { type Git, GitError } from '../process/git-process.ts'
import { zeroId } from './ref-name.ts'
import type { RefUpdate } from './refs.ts'

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
