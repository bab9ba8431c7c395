import { within } from '../base/timeouts.ts'
import type { Check } from './check.ts'
import { createDoctorContext, type DoctorContext, type DoctorOptions } from './context.ts'
import { dataDirectoryCheck, instanceCheck, leftoversCheck } from './data-directory-check.ts'
import { clockCheck, databaseCheck } from './database-check.ts'
import { diskCheck, fileSystemCheck, limitsCheck } from './disk-check.ts'
import { type Finding, fault, messageOf, SkipError } from './finding.ts'
import { gitCheck, sshClientCheck } from './git-check.ts'
import { keysCheck } from './keys-check.ts'
import { objectsCheck } from './objects-check.ts'
import { httpPortCheck, sshPortCheck } from './port-checks.ts'
import { programCheck } from './program-check.ts'
import { pushesCheck, repositoriesCheck, repositoryFilesCheck } from './repository-checks.ts'
import { sandboxCheck } from './sandbox-check.ts'
import { secretsCheck } from './secrets-check.ts'
import { settingsCheck } from './settings-check.ts'
import { webhooksCheck } from './webhooks-check.ts'

/** Every check, in the order in which they are done. */
export const checks: Check[] = [
  programCheck,
  settingsCheck,
  gitCheck,
  sshClientCheck,
  sandboxCheck,
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
  repositoriesCheck,
  repositoryFilesCheck,
  pushesCheck,
  webhooksCheck,
  leftoversCheck,
  objectsCheck,
]

export type Result = Finding & { check: string; title: string }

const timeoutMs = 30_000

/** Looks at all that svc needs and has, and changes nothing. */
export function createDoctor(options: DoctorOptions) {
  const context = createDoctorContext(options)
  return {
    /** Does one check after the other, and tells of each what it found. None keeps the rest from being done. */
    async *examine(): AsyncGenerator<Result[]> {
      for (const check of checks) {
        const findings = await carryOut(check, context)
        yield findings.map((finding) => ({ check: check.id, title: check.title, ...finding }))
      }
    },

    /** Ends what it has started, at once. */
    abandon: () => context.git.killAll(),
  }
}

async function carryOut({ run, isLong }: Check, context: DoctorContext): Promise<Finding[]> {
  try {
    return await (isLong ? run(context) : within(timeoutMs, run(context)))
  } catch (error) {
    if (error instanceof SkipError) return [{ level: 'skipped', found: error.message, fix: null }]
    return [
      fault(
        `This could not be looked at: ${messageOf(error)}`,
        'Run svc doctor again, as the user that runs the service; if it stays so, it is a fault of svc.',
      ),
    ]
  }
}
