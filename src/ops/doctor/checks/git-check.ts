import { findProgram } from '#base/find-program.ts'
import {
  compareGitVersions,
  type GitVersion,
  minGitVersion,
  parseGitVersion,
  toVersionText,
} from '#git/process/version.ts'
import type { Check } from '../check.ts'
import { type Findings, fault, messageOf, ok, warning } from '../finding.ts'
import { type GitVulnerability, vulnerabilitiesOf } from './known-git-vulnerabilities.ts'

const install = 'apt-get install git'

/** Checks that git runs and is new enough, and lists its known vulnerabilities. */
export const gitCheck: Check = {
  id: 'git',
  title: 'version and known vulnerabilities of git',
  async run(context) {
    const text = await context.gitVersion().catch((error) => {
      if (findProgram('git', context.path) === undefined) return undefined
      return messageOf(error)
    })
    if (text === undefined) return fault('git is not on the PATH.', install)
    const version = parseGitVersion(text)
    if (!version) return fault(`git does not run: ${text.slice(0, 200)}`, install)
    const name = `git ${toVersionText(version)}`
    if (compareGitVersions(version, minGitVersion) < 0) {
      const minVersion = toVersionText(minGitVersion)
      return fault(
        `${name} is too old; svc needs ${minVersion}.`,
        `${install}, of ${minVersion} or newer`,
      )
    }
    return toFindings(name, vulnerabilitiesOf(version), version)
  },
}

function toFindings(
  name: string,
  vulnerabilities: GitVulnerability[],
  version: GitVersion,
): Findings {
  const [open, others] = [true, false].map((isOpen) =>
    vulnerabilities.filter(({ reach }) => reach.isOpen === isOpen),
  )
  const rest = idsOf(others ?? [])
  const note =
    rest === ''
      ? ''
      : ` Vulnerabilities of this release, unless patched, in parts that svc does not use: ${rest}.`
  if (!open || open.length === 0) return ok(`${name}.${note}`)
  return open.map(({ ids, effect, fixedIn, reach }) =>
    warning(
      `${name} may have ${ids.join(', ')}: ${effect}; ${reach.because}.`,
      `Install git ${fixOf(fixedIn, version)} or newer. A distribution may have patched it without a new version: ` +
        `apt-get changelog git | grep -E '${ids.join('|')}'`,
    ),
  )
}

function idsOf(vulnerabilities: GitVulnerability[]): string {
  return vulnerabilities.flatMap(({ ids }) => ids).join(', ')
}

function fixOf(fixedIn: GitVersion[], [major, minor]: GitVersion): string {
  const ofSeries = fixedIn.find((fixed) => fixed[0] === major && fixed[1] === minor)
  return toVersionText(ofSeries ?? fixedIn[0] ?? minGitVersion)
}

/** Checks for the SSH client, which imports over SSH need. */
export const sshClientCheck: Check = {
  id: 'ssh-client',
  title: 'the SSH client',
  async run({ path }) {
    const program = findProgram('ssh', path)
    if (program !== undefined) return ok(`${program}, for imports over SSH.`)
    return warning(
      'ssh is not on the PATH: imports over SSH fail. Serving SSH does not need it.',
      'apt-get install openssh-client',
    )
  },
}
