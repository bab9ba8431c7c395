import { createHash } from 'node:crypto'
import { chunksOf } from '#base/chunks.ts'
import { gitCommands } from '#git/process/commands.ts'
import type { Git } from '#git/process/git-process.ts'

const outputMaxBytes = 64 * 1024 * 1024
const timeoutMs = 60_000

/**
 * Identifies the messages and patches of the commits since a base. A rebase that changes neither keeps it.
 * Unlike git-patch-id(1), white space counts. What is too large to compare gets the id of its tip.
 */
export async function patchIdOf(
  git: Pick<Git, 'start'>,
  directory: string,
  { baseId, commitId }: { baseId: string; commitId: string },
): Promise<string> {
  const signal = AbortSignal.timeout(timeoutMs)
  const hash = createHash('sha256')
  const digest = createPatchDigest((line) => hash.update(line))
  await using child = await git.start(gitCommands.logPatches(directory, `${baseId}..${commitId}`))
  child.stdin.end()
  let bytes = 0
  try {
    for await (const chunk of chunksOf(child.stdout, signal)) {
      bytes += chunk.length
      if (bytes > outputMaxBytes) return commitId
      digest.push(chunk)
    }
  } catch (error) {
    if (error === signal.reason) return commitId
    throw error
  }
  if ((await child.ended).exitCode !== 0) return commitId
  digest.end()
  return hash.digest('hex')
}

/** Passes on the lines of patches that do not depend on where these apply. Messages are indented, so no line of them is left out. */
export function createPatchDigest(take: (line: string) => void) {
  let rest = ''

  function takeLine(line: string): void {
    if (line.startsWith('index ')) return
    take(line.startsWith('@@ ') ? '@@\n' : `${line}\n`)
  }

  return {
    push(chunk: Buffer): void {
      const lines = (rest + chunk.toString('latin1')).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) takeLine(line)
    },
    end(): void {
      if (rest !== '') takeLine(rest)
    },
  }
}
