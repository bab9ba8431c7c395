import { evaluateCondition } from '../workflow-parser/expressions/evaluate.ts'
import type { Scope } from '../workflow-parser/expressions/scope.ts'
import { evaluateBoolean, evaluateEnvironment } from './planning/evaluate-settings.ts'
import { isFailure } from './planning/job-graph.ts'
import type { ReportedStep } from './planning/plan-steps.ts'
import { emitEnd, reportStep } from './report-step.ts'
import {
  type HookStep,
  type PostStep,
  type RunningJob,
  type StepList,
  stepScope,
} from './running-job.ts'
import { followCancellation } from './step-cancellation.ts'
import { ended, type StepEnd, toFault } from './step-end.ts'

/** Adds a step to the end of the job, and reports that it is planned. */
export async function addPostStep(
  running: RunningJob,
  { name, ...post }: Omit<PostStep, 'reported'> & { name: string },
): Promise<void> {
  const known = running.postSteps.find(({ key }) => key === post.key)
  if (known) return void Object.assign(known, post)
  const { run, planned } = running
  const number = run.nextStep()
  running.postSteps.push({ ...post, reported: { number, name } })
  await run.emit({ kind: 'step-planned', job: planned.number, step: number, name })
}

/** Runs the steps for the end of the job, the last added first. Their failures are failures of the job. */
export async function runPostSteps(running: RunningJob, jobList: StepList): Promise<void> {
  for (let post = running.postSteps.pop(); post; post = running.postSteps.pop()) {
    const { failed, cancelSignal, killSignal } = jobList
    // The action of the step may have ended, so the state of the job counts.
    const list = { ...post.list, failed, cancelSignal, killSignal }
    const conclusion = await runHook(running, post.reported, { ...post, list })
    if (isFailure(conclusion)) jobList.failed ??= conclusion
  }
}

/** Runs a hook if its condition holds. Returns its conclusion after `continue-on-error`. */
export async function runHook(
  running: RunningJob,
  planned: ReportedStep,
  hook: HookStep,
): Promise<StepEnd['conclusion']> {
  const { run, files } = running
  const { number, name } = planned
  const { step, list, condition } = hook
  const skip = async () => {
    await emitEnd(run, number, ended('skipped'))
    return 'skipped' as const
  }
  if (list.killSignal.aborted) return skip()
  const outerEnv = { ...running.env, ...list.env }
  let prepared: { env: Record<string, string>; scope: Scope; continuesOnError: boolean }
  try {
    const outerScope = stepScope(running, list, step, outerEnv)
    const ownEnv = await files.evaluate(() => evaluateEnvironment(step.env, outerScope))
    const scope = stepScope(running, list, step, { ...outerEnv, ...ownEnv })
    if (!(await files.evaluate(() => evaluateCondition(condition, scope)))) return skip()
    const isTolerated = await files.evaluate(() => evaluateBoolean(step.continueOnError, scope))
    const continuesOnError = isTolerated || list.continuesOnError
    prepared = { env: { ...list.env, ...ownEnv }, scope, continuesOnError }
  } catch (error) {
    await reportStep({ running, planned, name, isTolerated: false }, async () =>
      ended('failure', { fault: toFault(error) }),
    )
    return 'failure'
  }
  const { env, scope, continuesOnError } = prepared
  using following = followCancellation(running, list, { condition, scope })
  const { signal } = following
  const end = await reportStep(
    { running, planned, name, isTolerated: continuesOnError },
    (output) => hook.run({ running, list, number, env, scope, signal, output }),
  )
  return continuesOnError ? 'success' : end.conclusion
}
