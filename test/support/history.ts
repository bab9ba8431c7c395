import { once } from 'node:events'
import { spawnGit } from './git.ts'

/** Writes a linear history on `main`, with git-fast-import(1). */
export async function importHistory(path: string, { commits }: { commits: number }): Promise<void> {
  const lines: string[] = []
  for (let commit = 1; commit <= commits; commit++) {
    const [message, content] = [`Commit ${commit}`, `line ${commit}\n`.repeat(20)]
    lines.push(
      `commit refs/heads/main\ncommitter Ada <ada@example.com> ${1_700_000_000 + commit} +0000`,
      `data ${message.length}\n${message}`,
      `M 100644 inline folder-${commit % 50}/file-${commit % 400}.txt`,
      `data ${content.length}\n${content}`,
    )
  }
  await feed(path, ['fast-import', '--quiet'], lines)
}

/** Creates, changes or deletes many refs at once, with git-update-ref(1). */
export async function updateRefs(path: string, commands: string[]): Promise<void> {
  await feed(path, ['update-ref', '--stdin'], commands)
}

async function feed(path: string, args: string[], lines: string[]): Promise<void> {
  const child = spawnGit(path, args)
  const ended = once(child, 'close')
  child.stdin.end(`${lines.join('\n')}\n`)
  const [exitCode] = await ended
  if (exitCode !== 0) throw new Error(`git ${args[0]} ended with ${exitCode}`)
}
