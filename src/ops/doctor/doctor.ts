import { within } from '#base/timeouts.ts'
import type { Check } from './check.ts'
import { auditCheck } from './checks/audit-check.ts'
import { dataDirectoryCheck, instanceCheck, leftoversCheck } from './checks/data-directory-check.ts'
import { clockCheck, databaseCheck } from './checks/database-check.ts'
import { diskCheck, fileSystemCheck, limitsCheck } from './checks/disk-check.ts'
import { gitCheck, sshClientCheck } from './checks/git-check.ts'
import { keysCheck } from './checks/keys-check.ts'
import { objectsCheck } from './checks/objects-check.ts'
import { httpPortCheck, sshPortCheck } from './checks/port-checks.ts'
import { programCheck } from './checks/program-check.ts'
import { pushesCheck, repositoriesCheck, repositoryFilesCheck } from './checks/repository-checks.ts'
import { runFilesCheck } from './checks/run-files-check.ts'
import { sandboxCheck } from './checks/sandbox-check.ts'
import { secretsCheck } from './checks/secrets-check.ts'
import { settingsCheck } from './checks/settings-check.ts'
import { storeCheck } from './checks/store-check.ts'
import { toolsCheck } from './checks/tools-check.ts'
import { webhooksCheck } from './checks/webhooks-check.ts'
import { createDoctorContext, type DoctorContext, type DoctorOptions } from './context.ts'
import { type Finding, fault, listOf, messageOf, SkipError } from './finding.ts'

/** All checks, in order of execution. */
export const checks: Check[] = [
  programCheck,
  settingsCheck,
  gitCheck,
  sshClientCheck,
  sandboxCheck,
  toolsCheck,
  limitsCheck,
  dataDirectoryCheck,
  fileSystemCheck,
  diskCheck,
  keysCheck,
  databaseCheck,
  instanceCheck,
  secretsCheck,
  clockCheck,
  httpPortCheck,
  sshPortCheck,
  storeCheck,
  repositoriesCheck,
  repositoryFilesCheck,
  pushesCheck,
  runFilesCheck,
  webhooksCheck,
  auditCheck,
  leftoversCheck,
  objectsCheck,
]

/** The checks of a machine with a runner only. */
const runnerChecks: Check[] = [
  programCheck,
  settingsCheck,
  gitCheck,
  sandboxCheck,
  toolsCheck,
  limitsCheck,
]

export type Result = Finding & { check: string; title: string }

const timeoutMs = 30_000

/** Checks an installation of svc without changing it. */
export function createDoctor(options: DoctorOptions) {
  const context = createDoctorContext(options)
  return {
    /** Runs the checks in order and yields the findings of each. A failing check does not stop the others. */
    async *examine(): AsyncGenerator<Result[]> {
      for (const check of options.ofRunner ? runnerChecks : checks) {
        const findings = await runCheck(check, context)
        yield findings.map((finding) => ({ check: check.id, title: check.title, ...finding }))
      }
    },

    /** Kills all git processes that the checks have started. */
    abandon: () => context.git.killAll(),
  }
}

async function runCheck({ run, isLong }: Check, context: DoctorContext): Promise<Finding[]> {
  try {
    return listOf(await (isLong ? run(context) : within(timeoutMs, run(context))))
  } catch (error) {
    if (error instanceof SkipError) return [{ level: 'skipped', found: error.message, fix: null }]
    return [
      fault(
        `The check failed: ${messageOf(error)}`,
        'Run svc doctor again as the user that runs the service; if the check still fails, this is a bug of svc.',
      ),
    ]
  }
}
