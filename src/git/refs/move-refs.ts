import { join } from 'node:path'
import { sync } from '#base/disk.ts'
import { gitCommands } from '../process/commands.ts'
import { type Ended, type Git, GitError } from '../process/git-process.ts'
import { zeroId } from './ref-name.ts'
import { branchPrefix } from './refs.ts'

/** The new value of a ref, and its expected old value; all zeros mean that the ref does not exist. */
export type RefMove = { ref: string; to: string; from?: string }

type Options = {
  directory: string
  /** Called with the end of the git process. */
  watch: (ended: Promise<Ended>) => void
}

/** Moves refs in one transaction, all or none: git-update-ref(1). Throws a GitError when git rejects it. */
export async function moveRefs(
  git: Git,
  { directory, watch }: Options,
  moves: RefMove[],
): Promise<void> {
  await using child = await git.start(gitCommands.updateRefs(directory))
  watch(child.ended)
  child.stdin.end(moves.map(toLine).join(''))
  child.stdout.resume()
  const ended = await child.ended
  if (ended.exitCode !== 0) throw new GitError('update-ref', ended)
}

/** Points HEAD at a branch, durably: git-symbolic-ref(1). Throws a GitError. */
export async function setDefaultBranch(
  git: Git,
  { directory, watch }: Options,
  branch: string,
): Promise<void> {
  await using child = await git.start(gitCommands.setHead(directory, branchPrefix + branch))
  watch(child.ended)
  child.stdin.end()
  child.stdout.resume()
  const ended = await child.ended
  if (ended.exitCode !== 0) throw new GitError('symbolic-ref', ended)
  // Git syncs refs, but not symbolic ones.
  await sync(join(directory, 'HEAD'))
  await sync(directory)
}

function toLine({ ref, to, from }: RefMove): string {
  const words = to === zeroId ? ['delete', ref] : ['update', ref, to]
  return `${[...words, ...(from === undefined ? [] : [from])].join(' ')}\n`
}
