import { gitCommands } from '../process/commands.ts'
import type { Git } from '../process/git-process.ts'

/** Resolves object names; returns the ids of those that the repository has, by name. */
export async function findObjects(
  git: Git,
  directory: string,
  names: string[],
): Promise<Map<string, string>> {
  const input = names.map((name) => `${name}\n`).join('')
  const output = await git.run(gitCommands.findObjects(directory), { input })
  const found = new Map<string, string>()
  for (const [index, line] of output.trimEnd().split('\n').entries()) {
    if (/^[0-9a-f]{40}$/.test(line)) found.set(names[index] ?? '', line)
  }
  return found
}
