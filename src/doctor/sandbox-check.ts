import { findProgram } from '../base/find-program.ts'
import { toSandboxOptions } from '../runner/sandbox-options.ts'
import { probeSandbox } from '../sandbox/open-sandbox.ts'
import { missingTools } from '../sandbox/tools.ts'
import type { Check } from './check.ts'
import type { DoctorContext } from './context.ts'
import { type Finding, messageOf, ok, warning } from './finding.ts'

const namespaces =
  'Let this user make user namespaces: sysctl -e kernel.unprivileged_userns_clone=1 ' +
  'user.max_user_namespaces=15000 kernel.apparmor_restrict_unprivileged_userns=0; ' +
  'in a container, allow it to make them (docs/operating.md, The runner).'

// The doctor moves no processes, and is in the group of the shell that started it.
const aboutGroups =
  'A server may have a control group of its own: the first lines of its log say which limit holds.'

/** Whether the steps of workflows can be kept apart from everything else. */
export const sandboxCheck: Check = {
  id: 'sandbox',
  title: 'the sandbox',
  async run(context) {
    if (!context.setting('runner')) {
      return [ok('SVC_RUNNER is off: only runners elsewhere execute workflows.')]
    }
    const missing = missingTools(context.path).map((tool) =>
      warning(
        `${tool.name} is not on the PATH; workflows need it.`,
        `apt-get install ${tool.package}`,
      ),
    )
    const isWanted = context.setting('sandbox') !== 'none'
    if (isWanted && findProgram('bwrap', context.path) === undefined) {
      const found =
        process.getuid?.() === 0
          ? 'bwrap is not on the PATH; steps of workflows have no sandbox without it.'
          : 'bwrap is not on the PATH; runs of workflows are refused without it.'
      missing.unshift(warning(found, 'apt-get install bubblewrap'))
    }
    return missing.length > 0 ? missing : [await probe(context)]
  },
}

// As the runner finds it out, with the same settings.
async function probe({ path, setting }: DoctorContext): Promise<Finding> {
  const sandbox = toSandboxOptions({
    sandbox: setting('sandbox'),
    sandboxNetwork: setting('sandboxNetwork'),
    sandboxPaths: setting('sandboxPaths'),
    stepMemoryMaxBytes: setting('stepMemoryMaxBytes'),
    stepProcesses: setting('stepProcesses'),
    stepFileMaxBytes: setting('stepFileMaxBytes'),
    freeSpaceLeast: setting('freeSpaceLeast'),
    dataDir: setting('dataDir'),
    encryptionKeyFile: setting('encryptionKeyFile'),
  })
  const limits = { ...sandbox.limits, freeSpaceLeast: 0 }
  try {
    const { isolation, fault } = await probeSandbox({ ...sandbox, path, limits })
    if (fault === undefined) {
      const { memoryLimit, description } = isolation
      return ok(memoryLimit === 'watched' ? `${description} ${aboutGroups}` : description)
    }
    if (sandbox.mode === 'none') return warning(isolation.description, 'Unset SVC_SANDBOX.')
    const found = `bubblewrap cannot make a sandbox here: ${fault.replace(/\s+/g, ' ').trim()}`
    return warning(found, namespaces)
  } catch (error) {
    return warning(messageOf(error), 'Mend SVC_SANDBOX_PATHS.')
  }
}
