import { compareGitVersions, type GitVersion } from '#git/process/version.ts'

/** A vulnerability of git, from its release notes. */
export type GitVulnerability = {
  ids: string[]
  effect: string
  /** The first fixed release of each series, oldest first; later series never had it. */
  fixedIn: GitVersion[]
  /** Whether and how it can be exploited through svc, or why not. */
  reach: { isOpen: boolean; because: string }
}

const notUsed = (because: string) => ({ isOpen: false, because })

/** The vulnerabilities of git since 2.39.0, from its release notes up to 2.56.0. */
export const knownGitVulnerabilities: GitVulnerability[] = [
  {
    ids: ['CVE-2022-41903', 'CVE-2022-23521'],
    effect: 'integers overflow in archive formats and in .gitattributes files, which may run code',
    fixedIn: [[2, 39, 1]],
    // git archive --remote
    reach: { isOpen: true, because: 'svc creates archives of pushed content' },
  },
  {
    ids: ['CVE-2023-22490'],
    effect: 'a clone mistaken for a local one copies files of this machine',
    fixedIn: [[2, 39, 2]],
    reach: notUsed('svc imports by fetching, not by git clone'),
  },
  {
    ids: ['CVE-2023-23946'],
    effect: 'git apply writes outside the working tree',
    fixedIn: [[2, 39, 2]],
    reach: notUsed('svc applies no patches'),
  },
  {
    ids: ['CVE-2023-25652', 'CVE-2023-25815', 'CVE-2023-29007'],
    effect:
      'git apply --reject, renaming sections of settings and translated messages can be misled',
    fixedIn: [
      [2, 39, 3],
      [2, 40, 1],
    ],
    reach: notUsed('svc uses none of these'),
  },
  {
    ids: ['CVE-2024-32004', 'CVE-2024-32465'],
    effect: 'a malicious repository on this machine runs code when it is read',
    fixedIn: [
      [2, 39, 4],
      [2, 40, 2],
      [2, 41, 1],
      [2, 42, 2],
      [2, 43, 4],
      [2, 44, 1],
      [2, 45, 1],
    ],
    reach: { isOpen: true, because: 'imports may read folders of this machine' },
  },
  {
    ids: ['CVE-2024-32002', 'CVE-2024-32020', 'CVE-2024-32021'],
    effect: 'clones with submodules run code, and local clones share files with their source',
    fixedIn: [
      [2, 39, 4],
      [2, 40, 2],
      [2, 41, 1],
      [2, 42, 2],
      [2, 43, 4],
      [2, 44, 1],
      [2, 45, 1],
    ],
    reach: notUsed('svc checks nothing out and makes no hard links'),
  },
  {
    ids: ['CVE-2024-50349', 'CVE-2024-52006'],
    effect: 'addresses with control characters mislead password prompts and credential helpers',
    fixedIn: [
      [2, 40, 4],
      [2, 41, 3],
      [2, 42, 4],
      [2, 43, 6],
      [2, 44, 3],
      [2, 45, 3],
      [2, 46, 3],
      [2, 47, 2],
      [2, 48, 1],
    ],
    reach: notUsed("svc's git has no password prompts and no credential helpers"),
  },
  {
    ids: ['CVE-2025-48384', 'CVE-2025-48385'],
    effect: 'clones with submodules run code, and bundles of a remote are written to any path',
    fixedIn: [
      [2, 43, 7],
      [2, 44, 4],
      [2, 45, 4],
      [2, 46, 4],
      [2, 47, 3],
      [2, 48, 2],
      [2, 49, 1],
      [2, 50, 1],
    ],
    reach: notUsed('svc checks out no submodules and requests no bundles'),
  },
  {
    ids: ['CVE-2025-27613', 'CVE-2025-27614', 'CVE-2025-46334', 'CVE-2025-46835', 'CVE-2025-48386'],
    effect: 'vulnerabilities of gitk, Git GUI and the Windows credential store',
    fixedIn: [
      [2, 43, 7],
      [2, 44, 4],
      [2, 45, 4],
      [2, 46, 4],
      [2, 47, 3],
      [2, 48, 2],
      [2, 49, 1],
      [2, 50, 1],
    ],
    reach: notUsed('svc does not start them'),
  },
]

/** Lists the vulnerabilities of an upstream release. Distributions patch without changing the version. */
export function vulnerabilitiesOf(version: GitVersion): GitVulnerability[] {
  return knownGitVulnerabilities.filter(({ fixedIn }) => {
    const ofSeries = fixedIn.find(([major, minor]) => major === version[0] && minor === version[1])
    const fixed = ofSeries ?? fixedIn.at(-1)
    return fixed !== undefined && compareGitVersions(version, fixed) < 0
  })
}
