import { within } from '#base/timeouts.ts'
import type { Check } from './check.ts'
import { checks, runnerChecks } from './checks/checks.ts'
import { createDoctorContext, type DoctorContext, type DoctorOptions } from './context.ts'
import { type Finding, fault, listOf, messageOf, SkipError } from './finding.ts'

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
