import { type Check, orOk, warning } from './finding.ts'
import { findProgram, tryProgram } from './programs.ts'

const trial = ['--ro-bind', '/', '/', '--unshare-all', '--die-with-parent', '--', '/bin/true']

/** Whether the steps of workflows can be kept apart from everything else. */
export const sandboxCheck: Check = {
  id: 'sandbox',
  title: 'the sandbox',
  async run({ path }) {
    const bwrap = findProgram('bwrap', path)
    const found = bwrap === undefined ? undefined : await tryProgram(bwrap, trial)
    const findings = ['prlimit', 'setpriv']
      .filter((name) => findProgram(name, path) === undefined)
      .map((name) =>
        warning(
          `${name} is not on the PATH; workflows will need it.`,
          'apt-get install util-linux',
        ),
      )
    if (found === undefined) {
      const missing = 'bwrap is not on the PATH; workflows will need it.'
      findings.unshift(warning(missing, 'apt-get install bubblewrap'))
    } else if (!found.isFine) {
      findings.unshift(
        warning(
          `bwrap, which workflows will need, cannot make a sandbox here: ${found.text}`,
          'Let this user make user namespaces: sysctl kernel.unprivileged_userns_clone=1 ' +
            'user.max_user_namespaces=15000; in a container, allow it to make them.',
        ),
      )
    }
    return orOk(findings, `${bwrap} makes sandboxes; prlimit and setpriv are there.`)
  },
}
