import { shellWord } from '../base/shell-word.ts'
import { hooksPath } from '../git/process/git-process.ts'
import { assertHooks } from '../git/protocol/hook-channel.ts'
import type { Check } from './check.ts'
import { fault, messageOf, orOk } from './finding.ts'

const leastNode = [24, 15] as const

/** Whether svc itself is whole, and on a system that it is made for. */
export const programCheck: Check = {
  id: 'program',
  title: 'svc and what runs it',
  async run({ version }) {
    const { platform, arch, versions } = process
    const [major = 0, minor = 0] = versions.node.split('.').map(Number)
    const isOld = major < leastNode[0] || (major === leastNode[0] && minor < leastNode[1])
    const hooks = await assertHooks().catch(messageOf)
    const findings = [
      ...(isOld
        ? [
            fault(
              `Node ${versions.node} is too old; svc needs ${leastNode.join('.')}.`,
              'Start svc with bin/svc, which finds the Node that it needs.',
            ),
          ]
        : []),
      ...(platform === 'linux'
        ? []
        : [fault(`svc needs Linux, and this is ${platform}.`, 'Run it on Linux.')]),
      ...(hooks === undefined
        ? []
        : [
            fault(
              hooks,
              `Install svc again, or: chmod 755 ${shellWord(`${hooksPath}/pre-receive`)}`,
            ),
          ]),
    ]
    return orOk(findings, `svc ${version} on Node ${versions.node}, ${platform} ${arch}.`)
  },
}
