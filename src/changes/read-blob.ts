import { gitCommands } from '#git/process/commands.ts'
import { type Git, GitError } from '#git/process/git-process.ts'

const maxBytes = 1024 * 1024

/** Reads a file by its id; `large` if it has more than 1 MiB, undefined for an object that is no file. */
export async function readBlob(
  git: Pick<Git, 'runUpTo'>,
  directory: string,
  id: string,
): Promise<Buffer | 'large' | undefined> {
  try {
    return (await git.runUpTo(maxBytes, gitCommands.printBlob(directory, id))) ?? 'large'
  } catch (error) {
    if (error instanceof GitError && error.isRefusal) return undefined
    throw error
  }
}
