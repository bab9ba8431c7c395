import { toSandboxOptions } from '#actions/runner/runner-configuration.ts'
import { probeSandbox } from '#actions/sandbox/open-sandbox.ts'
import { missingTools } from '#actions/sandbox/tools.ts'
import { findProgram } from '#base/find-program.ts'
import type { Check } from '../check.ts'
import type { DoctorContext } from '../context.ts'
import { type Finding, messageOf, ok, warning } from '../finding.ts'

const namespaces =
  'Allow this user to create user namespaces: sysctl -e kernel.unprivileged_userns_clone=1 ' +
  'user.max_user_namespaces=15000 kernel.apparmor_restrict_unprivileged_userns=0; ' +
  'in a container, allow it to create them (docs/operating.md, The runner).'

// The doctor runs in the control group of its shell, so a server's limit may differ.
const groupNote =
  'A server may have its own control group: the first lines of its log show which limit applies.'

/** Checks that workflow steps can run in a sandbox. */
export const sandboxCheck: Check = {
  id: 'sandbox',
  title: 'the sandbox',
  async run(context) {
    if (!context.hasRunner()) {
      return ok('SVC_RUNNER is off: only other runners execute workflows.')
    }
    const missing = missingTools(context.path).map((tool) =>
      warning(
        `${tool.name} is not on the PATH; workflows need it.`,
        `apt-get install ${tool.package}`,
      ),
    )
    const needsBubblewrap = context.setting('sandbox') !== 'none'
    if (needsBubblewrap && findProgram('bwrap', context.path) === undefined) {
      const found =
        process.getuid?.() === 0
          ? 'bwrap is not on the PATH; without it, workflow steps have no sandbox.'
          : 'bwrap is not on the PATH; without it, workflow runs are rejected.'
      missing.unshift(warning(found, 'apt-get install bubblewrap'))
    }
    return missing.length > 0 ? missing : [await probe(context)]
  },
}

// Uses the runner's own probe, with the same settings.
async function probe({ path, setting }: DoctorContext): Promise<Finding> {
  const sandbox = toSandboxOptions({
    sandbox: setting('sandbox'),
    sandboxNetwork: setting('sandboxNetwork'),
    stepHosts: setting('stepHosts'),
    sandboxPaths: setting('sandboxPaths'),
    tools: setting('tools'),
    stepEnv: setting('stepEnv'),
    stepMemoryMaxBytes: setting('stepMemoryMaxBytes'),
    stepProcesses: setting('stepProcesses'),
    stepFileMaxBytes: setting('stepFileMaxBytes'),
    freeSpaceMinBytes: setting('freeSpaceMinBytes'),
    dataDir: setting('dataDir'),
    encryptionKeyFile: setting('encryptionKeyFile'),
  })
  const limits = { ...sandbox.limits, freeSpaceMinBytes: 0 }
  try {
    const { isolation, fault } = await probeSandbox({ ...sandbox, path, limits })
    if (fault === undefined) {
      const { memoryLimit, description } = isolation
      return ok(memoryLimit === 'watched' ? `${description} ${groupNote}` : description)
    }
    if (sandbox.mode === 'none') return warning(isolation.description, 'Unset SVC_SANDBOX.')
    const found = `bubblewrap cannot create a sandbox here: ${fault.replace(/\s+/g, ' ').trim()}`
    return warning(found, namespaces)
  } catch (error) {
    return warning(messageOf(error), 'Correct SVC_SANDBOX_PATHS or SVC_TOOLS.')
  }
}
