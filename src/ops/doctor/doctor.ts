import { within } from '#base/timeouts.ts'
import { auditCheck } from './audit-check.ts'
import type { Check } from './check.ts'
import { createDoctorContext, type DoctorContext, type DoctorOptions } from './context.ts'
import { dataDirectoryCheck, instanceCheck, leftoversCheck } from './data-directory-check.ts'
import { clockCheck, databaseCheck } from './database-check.ts'
import { diskCheck, fileSystemCheck, limitsCheck } from './disk-check.ts'
import { type Finding, fault, listOf, messageOf, SkipError } from './finding.ts'
import { gitCheck, sshClientCheck } from './git-check.ts'
import { keysCheck } from './keys-check.ts'
import { objectsCheck } from './objects-check.ts'
import { httpPortCheck, sshPortCheck } from './port-checks.ts'
import { programCheck } from './program-check.ts'
import { pushesCheck, repositoriesCheck, repositoryFilesCheck } from './repository-checks.ts'
import { runFilesCheck } from './run-files-check.ts'
import { sandboxCheck } from './sandbox-check.ts'
import { secretsCheck } from './secrets-check.ts'
import { settingsCheck } from './settings-check.ts'
import { storeCheck } from './store-check.ts'
import { toolsCheck } from './tools-check.ts'
import { webhooksCheck } from './webhooks-check.ts'

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
