import { gitCommands } from '#git/process/commands.ts'
import { type Git, GitError } from '#git/process/git-process.ts'

const outputMaxBytes = 4 * 1024 * 1024

/** Finds where lines of a file of a commit are in the same file of another commit. */
export type FollowLines = (line: number) => number | undefined

/**
 * Compares a file of two commits, and returns a function that follows its lines from one to the other: undefined for a line
 * that was changed or deleted, or whose file was, or is too large to compare.
 */
export async function followLines(
  git: Pick<Git, 'runUpTo'>,
  directory: string,
  { from, to, path }: { from: string; to: string; path: string },
): Promise<FollowLines> {
  if (from === to) return (line) => line
  const command = gitCommands.diffLines(directory, from, to, path)
  const output = await git.runUpTo(outputMaxBytes, command).catch((error) => {
    if (error instanceof GitError) return undefined
    throw error
  })
  return output ? followHunks(output.toString('latin1')) : () => undefined
}

/** Follows lines through the hunks of a patch without context. Lines count from 1. */
export function followHunks(patch: string): FollowLines {
  const hunks = [...patch.matchAll(/^@@ -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))? @@/gm)].map(
    ([, start = '0', removed = '1', added = '1']) => ({
      start: Number(start),
      removed: Number(removed),
      added: Number(added),
    }),
  )
  // Its lines are neither numbered nor comparable.
  const isGone = /^(deleted file mode|Binary files) /m.test(patch)
  return (line) => {
    if (isGone) return undefined
    let shift = 0
    for (const { start, removed, added } of hunks) {
      // A hunk that removes nothing is after the line that it names.
      const first = removed === 0 ? start + 1 : start
      if (line < first) break
      if (line < first + removed) return undefined
      shift += added - removed
    }
    return line + shift
  }
}
