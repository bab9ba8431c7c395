import { gitCommands } from '#git/process/commands.ts'
import type { GitTasks, Requester } from '../git-tasks.ts'
import { idLines } from './history.ts'

/** What one commit has that another has not. */
export type Comparison = {
  /** A best common ancestor; undefined if there is none. */
  mergeBase: string | undefined
  ahead: number
  behind: number
  /** The first of the commits that only the head has, newest first. */
  ids: string[]
}

/** Compares the histories of two commits. Throws as GitTasks do. */
export async function compareCommits(
  tasks: GitTasks,
  requester: Requester,
  { base, head, limit }: { base: string; head: string; limit: number },
): Promise<Comparison> {
  if (base === head) return { mergeBase: base, ahead: 0, behind: 0, ids: [] }
  const directory = requester.repository.path
  const sides = await tasks.run(requester, {
    command: gitCommands.listSides(directory, base, head),
    async read(output) {
      const ids: string[] = []
      let [ahead, behind] = [0, 0]
      for await (const line of idLines(output)) {
        if (line.startsWith('<')) behind += 1
        else if (ahead++ < limit) ids.push(line.slice(1))
      }
      return { ahead, behind, ids }
    },
  })
  // One that has all commits of the other is a descendant of it.
  const mergeBase =
    sides.behind === 0
      ? base
      : sides.ahead === 0
        ? head
        : await findMergeBase(tasks, requester, { base, head })
  return { ...sides, mergeBase }
}

function findMergeBase(
  tasks: GitTasks,
  requester: Requester,
  { base, head }: { base: string; head: string },
): Promise<string | undefined> {
  return tasks.run(requester, {
    command: gitCommands.mergeBase(requester.repository.path, base, head),
    accepts: [1],
    async read(output) {
      let found: string | undefined
      for await (const line of idLines(output)) found ??= line
      return found
    },
  })
}
