import { evaluateCondition } from '../workflow-parser/evaluate.ts'
import type { Scope } from '../workflow-parser/scope.ts'
import { onAbort } from './cancellation.ts'
import { emitEnds, emitFailure, passOver } from './emit-steps.ts'
import { toFault } from './error-text.ts'
import { evaluateBoolean, evaluateEnvironment } from './evaluate-settings.ts'
import type { Conclusion } from './plan.ts'
import type { PlannedStep } from './plan-steps.ts'
import { runAction } from './run-action.ts'
import { runScriptStep } from './run-script-step.ts'
import { type RunningJob, type StepList, stepScope } from './running-job.ts'
import { ended, type StepEnd, wordOf } from './step-end.ts'

/** Runs steps in order, each if its condition holds. */
export async function runSteps(
  running: RunningJob,
  list: StepList,
  steps: readonly PlannedStep[],
): Promise<void> {
  for (const planned of steps) {
    const { conclusion, end } = await runStep(running, list, planned)
    const { step } = planned
    if (conclusion === 'failure' || conclusion === 'timed_out') list.failed ??= conclusion
    if (step.id === undefined) continue
    const { outputs } = end
    list.results[step.id] = {
      outputs,
      outcome: wordOf(end.conclusion),
      conclusion: wordOf(conclusion),
    }
  }
}

type Concluded = { end: StepEnd; conclusion: Conclusion }

async function runStep(
  running: RunningJob,
  list: StepList,
  planned: PlannedStep,
): Promise<Concluded> {
  const { step } = planned
  const outerEnv = { ...running.env, ...list.env }
  let env: Record<string, string>
  let scope: Scope
  let isPassedOver: boolean
  try {
    if (list.hard.aborted) return await passBy(running, planned)
    const ownEnv = evaluateEnvironment(step.env, stepScope(running, list, step, outerEnv))
    env = { ...list.env, ...ownEnv }
    scope = stepScope(running, list, step, { ...outerEnv, ...ownEnv })
    if (!evaluateCondition(step.if, scope)) return await passBy(running, planned)
    isPassedOver = evaluateBoolean(step.continueOnError, scope)
  } catch (error) {
    return await failBefore(running, list, planned, toFault(error))
  }

  const ending = new AbortController()
  const endWith = (signal: AbortSignal) => () => ending.abort(signal.reason)
  using _hard = onAbort(list.hard, endWith(list.hard))
  // A step that is to run in spite of a cancellation goes on, as one that begins after it.
  using _soft = list.soft.aborted
    ? undefined
    : onAbort(list.soft, () => {
        if (!holdsWhenStopped(running, planned, scope)) ending.abort(list.soft.reason)
      })
  const asked = { running, list, env, scope, signal: ending.signal }
  const end =
    planned.kind === 'action'
      ? await runAction({ ...asked, planned, isPassedOver, runSteps })
      : await runScriptStep({ ...asked, planned, isPassedOver })
  return { end, conclusion: passOver(end.conclusion, isPassedOver) }
}

function holdsWhenStopped(running: RunningJob, { step }: PlannedStep, scope: Scope): boolean {
  // Of a run that ran out of time or was cancelled alike.
  if (running.ending.hard.aborted) return false
  try {
    const status = { success: false, failure: false, cancelled: true }
    return evaluateCondition(step.if, { ...scope, status })
  } catch {
    return false
  }
}

async function passBy(running: RunningJob, planned: PlannedStep): Promise<Concluded> {
  const end = ended('skipped')
  await emitEnds(running, planned, end)
  return { end, conclusion: end.conclusion }
}

// The first of an action's steps tells what is wrong with the step that uses it.
async function failBefore(
  running: RunningJob,
  list: StepList,
  planned: PlannedStep,
  fault: string,
): Promise<Concluded> {
  await emitFailure(running, planned, fault, list.isPassedOver)
  const end = ended('failure', { fault })
  return { end, conclusion: 'failure' }
}
