import { evaluateCondition } from '../workflow-parser/evaluate.ts'
import type { Scope } from '../workflow-parser/scope.ts'
import { applyContinueOnError, emitEnds, emitFailure } from './emit-steps.ts'
import { evaluateBoolean, evaluateEnvironment } from './evaluate-settings.ts'
import { isFailure } from './job-graph.ts'
import type { Conclusion } from './plan.ts'
import { joinNames, type PlannedStep, stepNameOf } from './plan-steps.ts'
import { reportStep } from './report-step.ts'
import { runAction } from './run-action.ts'
import { registerPost, runProgram } from './run-program.ts'
import { runScriptStep } from './run-script-step.ts'
import { type RunningJob, type RunningStep, type StepList, stepScope } from './running-job.ts'
import { followCancellation } from './step-cancellation.ts'
import { ended, type StepEnd, toContextConclusion } from './step-end.ts'
import { toFault } from './to-fault.ts'

/** Runs steps in order, each if its condition holds. */
export async function runSteps(
  running: RunningJob,
  list: StepList,
  steps: readonly PlannedStep[],
): Promise<void> {
  for (const planned of steps) {
    const { conclusion, end } = await runStep(running, list, planned)
    const { step } = planned
    if (isFailure(conclusion)) {
      list.failed ??= conclusion
      if (!list.continuesOnError) running.failedSetting ??= running.lastSetting
    }
    if (step.id === undefined) continue
    const { outputs } = end
    list.results[step.id] = {
      outputs,
      outcome: toContextConclusion(end.conclusion),
      conclusion: toContextConclusion(conclusion),
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
  let continuesOnError: boolean
  try {
    if (list.killSignal.aborted) return await skipStep(running, planned)
    const { files } = running
    const outerScope = stepScope(running, list, step, outerEnv)
    const ownEnv = await files.evaluate(() => evaluateEnvironment(step.env, outerScope))
    env = { ...list.env, ...ownEnv }
    scope = stepScope(running, list, step, { ...outerEnv, ...ownEnv })
    const isWanted = await files.evaluate(() => evaluateCondition(step.if, scope))
    if (!isWanted) return await skipStep(running, planned)
    continuesOnError = await files.evaluate(() => evaluateBoolean(step.continueOnError, scope))
  } catch (error) {
    return await failBeforeStart(running, list, planned, toFault(error))
  }

  using following = followCancellation(running, list, { condition: step.if, scope })
  const options = { running, list, env, scope, signal: following.signal, continuesOnError }
  const end = await runPlanned(options, planned)
  return { end, conclusion: applyContinueOnError(end.conclusion, continuesOnError) }
}

type RunOptions = Omit<RunningStep, 'number' | 'output'> & { continuesOnError: boolean }

async function runPlanned(options: RunOptions, planned: PlannedStep): Promise<StepEnd> {
  if (planned.kind === 'action') return runAction({ ...options, planned, runSteps })
  const { running, list, scope, continuesOnError } = options
  const { files, run } = running
  const ownName = await files.evaluate(() => stepNameOf(planned.step, scope, run.masker))
  const name = joinNames([...list.names, ownName])
  if (planned.kind === 'program') await registerPost({ running, list, planned }, name)
  const isTolerated = continuesOnError || list.continuesOnError
  return reportStep({ running, planned, name, isTolerated }, (output) => {
    const step = { ...options, number: planned.number, output }
    return planned.kind === 'program'
      ? runProgram({ ...step, planned, file: planned.program.main })
      : runScriptStep({ ...step, planned, name })
  })
}

async function skipStep(running: RunningJob, planned: PlannedStep): Promise<Concluded> {
  const end = ended('skipped')
  await emitEnds(running, planned, end)
  return { end, conclusion: end.conclusion }
}

// The first step of an action reports the fault of the step that uses the action.
async function failBeforeStart(
  running: RunningJob,
  list: StepList,
  planned: PlannedStep,
  fault: string,
): Promise<Concluded> {
  await emitFailure(running, planned, fault, list.continuesOnError)
  const end = ended('failure', { fault })
  return { end, conclusion: 'failure' }
}
