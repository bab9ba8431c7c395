import { Problem } from '../base/problem.ts'
import { gitCommands } from '../git/process/commands.ts'
import type { Git } from '../git/process/git-process.ts'

/** Streams a commit with its trees and blobs, as a pack. Throws `ref_not_found` when it is gone. */
export async function packCommit(
  git: Git,
  { directory, commit, signal }: { directory: string; commit: string; signal: AbortSignal },
): Promise<AsyncIterable<Buffer>> {
  const child = await git.start(gitCommands.packCommit(directory))
  signal.addEventListener('abort', () => void child[Symbol.asyncDispose]())
  if (signal.aborted) await child[Symbol.asyncDispose]()
  child.stdin.end(`--shallow ${commit}\n${commit}\n`)
  const chunks: AsyncIterator<Buffer> = child.stdout[Symbol.asyncIterator]()
  const first = await chunks.next()
  if (first.done) {
    const { errorOutput } = await child.ended
    await child[Symbol.asyncDispose]()
    const gone = /bad object|not a valid object|bad revision|unable to/i.test(errorOutput)
    if (!gone) throw new Error(`git pack-objects: ${errorOutput}`)
    throw new Problem('ref_not_found', `The commit ${commit} is no longer in the repository.`)
  }
  return (async function* () {
    try {
      yield first.value
      for (let next = await chunks.next(); !next.done; next = await chunks.next()) yield next.value
      const { exitCode, errorOutput } = await child.ended
      if (exitCode !== 0) throw new Error(`git pack-objects: ${errorOutput}`)
    } finally {
      await child[Symbol.asyncDispose]()
    }
  })()
}
