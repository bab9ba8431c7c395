import { shellWord } from '#base/shell-word.ts'
import { hooksPath } from '#git/process/git-process.ts'
import { assertHooks } from '#git/protocol/hook-channel.ts'
import type { Check } from '../check.ts'
import { fault, messageOf, orOk } from '../finding.ts'

const minNodeVersion = [24, 15] as const

/** Checks the installation of svc, the version of Node and the platform. */
export const programCheck: Check = {
  id: 'program',
  title: 'svc, Node and the platform',
  async run({ version }) {
    const { platform, arch, versions } = process
    const [major = 0, minor = 0] = versions.node.split('.').map(Number)
    const isOld =
      major < minNodeVersion[0] || (major === minNodeVersion[0] && minor < minNodeVersion[1])
    const hooks = await assertHooks().catch(messageOf)
    const findings = [
      isOld &&
        fault(
          `Node ${versions.node} is too old; svc needs ${minNodeVersion.join('.')}.`,
          'Start svc with bin/svc, which selects a suitable Node.',
        ),
      platform !== 'linux' &&
        fault(`svc needs Linux, and this is ${platform}.`, 'Run it on Linux.'),
      hooks !== undefined &&
        fault(hooks, `Install svc again, or: chmod 755 ${shellWord(`${hooksPath}/pre-receive`)}`),
    ]
    return orOk(findings, `svc ${version} on Node ${versions.node}, ${platform} ${arch}.`)
  },
}
