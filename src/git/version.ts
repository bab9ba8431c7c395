/** Major, minor and patch number of a release of git. */
export type GitVersion = readonly [number, number, number]

/** The oldest git that svc works with. */
export const leastGitVersion: GitVersion = [2, 39, 0]

/** The version in what `git version` prints; undefined when there is none. */
export function parseGitVersion(text: string): GitVersion | undefined {
  const [, major, minor, patch = '0'] = /^git version (\d+)\.(\d+)(?:\.(\d+))?/.exec(text) ?? []
  if (major === undefined || minor === undefined) return undefined
  return [Number(major), Number(minor), Number(patch)]
}

export function toVersionText(version: GitVersion): string {
  return version.join('.')
}

/** Which of two versions is newer: negative, zero or positive, for sorting. */
export function compareVersions(one: GitVersion, other: GitVersion): number {
  return one[0] - other[0] || one[1] - other[1] || one[2] - other[2]
}
