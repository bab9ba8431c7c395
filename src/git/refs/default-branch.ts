import { join } from 'node:path'
import { sync } from '../../base/disk.ts'
import { gitCommands } from '../process/commands.ts'
import { type Ended, type Git, GitError } from '../process/git-process.ts'
import { zeroId } from './ref-name.ts'
import { listRefs, readRefs } from './refs.ts'

export const branchPrefix = 'refs/heads/'

const usualBranches = ['main', 'master', 'trunk']

/** Chooses a default branch among the existing branches; undefined when there are none. */
export function chooseDefaultBranch(branches: string[]): string | undefined {
  return usualBranches.find((name) => branches.includes(name)) ?? branches.toSorted()[0]
}

export async function listBranches(directory: string): Promise<string[]> {
  const refs = await listRefs(directory)
  return refs
    .filter((ref) => ref.startsWith(branchPrefix))
    .map((ref) => ref.slice(branchPrefix.length))
}

export async function hasBranch(directory: string, branch: string): Promise<boolean> {
  const ref = branchPrefix + branch
  return (await readRefs(directory, [ref])).get(ref) !== zeroId
}

type Options = {
  directory: string
  /** Called with the end of the git process. */
  watch: (ended: Promise<Ended>) => void
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
