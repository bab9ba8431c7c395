import { isFailure } from './job-graph.ts'
import { type PlannedStep, preStepsOf } from './plan-steps.ts'
import { runHook } from './post-steps.ts'
import { hookCondition, registerPost, runProgram } from './run-program.ts'
import type { RunningJob, StepList } from './running-job.ts'

/** Runs what actions do before the steps of the job. Their inputs cannot refer to the results of steps. */
export async function runPreSteps(
  running: RunningJob,
  list: StepList,
  steps: readonly PlannedStep[],
): Promise<void> {
  for (const { planned, pre } of preStepsOf(steps)) {
    const { pre: hook } = planned.program
    if (!hook) continue
    // Within a composite action, whose inputs are not known yet.
    const around = steps.includes(planned) ? list : { ...list, inputs: {} }
    const conclusion = await runHook(running, pre, {
      step: planned.step,
      list: around,
      condition: hookCondition(hook, planned.step),
      run: async (options) => {
        await registerPost({ running, list: around, planned }, planned.name)
        return runProgram({ ...options, planned, file: hook.file })
      },
    })
    if (isFailure(conclusion)) list.failed ??= conclusion
  }
}
