import { gitCommands } from './commands.ts'
import type { Git } from './git-process.ts'

/** Major, minor and patch number of a git release. */
export type GitVersion = readonly [number, number, number]

/** The oldest git that svc works with. */
export const minGitVersion: GitVersion = [2, 39, 0]

/** Parses the output of `git version`; undefined when it has no version number. */
export function parseGitVersion(text: string): GitVersion | undefined {
  const [, major, minor, patch = '0'] = /^git version (\d+)\.(\d+)(?:\.(\d+))?/.exec(text) ?? []
  if (major === undefined || minor === undefined) return undefined
  return [Number(major), Number(minor), Number(patch)]
}

export function toVersionText(version: GitVersion): string {
  return version.join('.')
}

/** Compares two versions, for Array.sort. */
export function compareGitVersions(one: GitVersion, other: GitVersion): number {
  return one[0] - other[0] || one[1] - other[1] || one[2] - other[2]
}

/** Throws when git does not run, or is older than svc requires. */
export async function assertGitVersion(git: Pick<Git, 'run'>): Promise<void> {
  const text = await git.run(gitCommands.version()).catch((error) => {
    throw new Error('git does not run; install it (Debian: apt-get install git).', { cause: error })
  })
  const version = parseGitVersion(text)
  if (version && compareGitVersions(version, minGitVersion) >= 0) return
  const [major, minor] = minGitVersion
  throw new Error(
    `${version ? `git ${toVersionText(version)}` : 'This git'} is too old; svc needs ${major}.${minor} or newer.`,
  )
}
