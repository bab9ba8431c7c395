import { compareVersions, type GitVersion } from '../git/process/version.ts'

/** A hole in git, as its release notes tell of it. */
export type GitVulnerability = {
  ids: string[]
  /** What it lets happen. */
  what: string
  /** The first release of each series that does not have it, oldest first; later series never had it. */
  mendedIn: GitVersion[]
  /** Whether strangers can get at it through svc, and how, or why not. */
  reach: { isOpen: boolean; because: string }
}

const notUsed = (because: string) => ({ isOpen: false, because })

/** The holes of git since 2.39.0, from its release notes up to those of 2.56.0. */
export const knownGitVulnerabilities: GitVulnerability[] = [
  {
    ids: ['CVE-2022-41903', 'CVE-2022-23521'],
    what: 'integers overflow in archive formats and in .gitattributes files, which may run code',
    mendedIn: [[2, 39, 1]],
    // What strangers push is archived for whoever asks: git archive --remote.
    reach: { isOpen: true, because: 'svc makes archives of what was pushed' },
  },
  {
    ids: ['CVE-2023-22490'],
    what: 'a clone that is taken for a local one copies files of this machine',
    mendedIn: [[2, 39, 2]],
    reach: notUsed('svc imports by fetching, not by git clone'),
  },
  {
    ids: ['CVE-2023-23946'],
    what: 'git apply writes outside the working tree',
    mendedIn: [[2, 39, 2]],
    reach: notUsed('svc applies no patches'),
  },
  {
    ids: ['CVE-2023-25652', 'CVE-2023-25815', 'CVE-2023-29007'],
    what: 'git apply --reject, renaming sections of settings and translated messages can be misled',
    mendedIn: [
      [2, 39, 3],
      [2, 40, 1],
    ],
    reach: notUsed('svc does none of this'),
  },
  {
    ids: ['CVE-2024-32004', 'CVE-2024-32465'],
    what: 'a repository on this machine that somebody else prepared runs code when it is read',
    mendedIn: [
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
    what: 'clones with submodules run code, and local clones share files with their source',
    mendedIn: [
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
    what: 'addresses with control characters mislead who is asked for a password, or the helper that keeps it',
    mendedIn: [
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
    reach: notUsed("svc's git asks nobody for passwords and has no helpers"),
  },
  {
    ids: ['CVE-2025-48384', 'CVE-2025-48385'],
    what: 'clones with submodules run code, and bundles of a remote are written anywhere',
    mendedIn: [
      [2, 43, 7],
      [2, 44, 4],
      [2, 45, 4],
      [2, 46, 4],
      [2, 47, 3],
      [2, 48, 2],
      [2, 49, 1],
      [2, 50, 1],
    ],
    reach: notUsed('svc checks no submodules out and asks for no bundles'),
  },
  {
    ids: ['CVE-2025-27613', 'CVE-2025-27614', 'CVE-2025-46334', 'CVE-2025-46835', 'CVE-2025-48386'],
    what: 'holes of gitk, Git GUI and the Windows credential store',
    mendedIn: [
      [2, 43, 7],
      [2, 44, 4],
      [2, 45, 4],
      [2, 46, 4],
      [2, 47, 3],
      [2, 48, 2],
      [2, 49, 1],
      [2, 50, 1],
    ],
    reach: notUsed('they are no part of what svc starts'),
  },
]

/** The holes of a release, as its makers left it: distributions mend without a change of its number. */
export function vulnerabilitiesOf(version: GitVersion): GitVulnerability[] {
  return knownGitVulnerabilities.filter(({ mendedIn }) => {
    const ofSeries = mendedIn.find(([major, minor]) => major === version[0] && minor === version[1])
    const mended = ofSeries ?? mendedIn.at(-1)
    return mended !== undefined && compareVersions(version, mended) < 0
  })
}
