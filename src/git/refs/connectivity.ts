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
  if (ids.length === 0) return true
  try {
    await git.run(gitCommands.checkNew(directory), { input: ids.map((id) => `${id}\n`).join('') })
    return true
  } catch (error) {
    if (error instanceof GitError && error.isRefusal) return false
    throw error
  }
}
