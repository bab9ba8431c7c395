import { posix } from 'node:path'
import { evaluateCondition } from '../workflow-parser/expressions/evaluate.ts'
import type { Scope } from '../workflow-parser/expressions/scope.ts'
import { afterTime, type CancelReason, onAbort } from './cancellation.ts'
import type { Conclusion } from './plan.ts'
import {
  actionInputs,
  evaluateBoolean,
  evaluateEnvironment,
  evaluateNumber,
  inputVariables,
} from './planning/evaluate-settings.ts'
import { isFailure } from './planning/job-graph.ts'
import {
  joinNames,
  type PlannedAction,
  type PlannedStep,
  stepNameOf,
} from './planning/plan-steps.ts'
import {
  applyContinueOnError,
  emitEnds,
  emitFailure,
  reportAddedStep,
  reportStep,
} from './report-step.ts'
import { registerPost, runProgram } from './run-program.ts'
import { runScriptStep } from './run-script-step.ts'
import { type RunningJob, type RunningStep, type StepList, stepScope } from './running-job.ts'
import { followCancellation } from './step-cancellation.ts'
import { durationInWords, ended, type StepEnd, toContextConclusion, toFault } from './step-end.ts'

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
  if (planned.kind === 'action') return runAction({ ...options, planned })
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

/** Runs the steps of a composite action for the step that uses it. */
async function runAction(options: RunOptions & { planned: PlannedAction }): Promise<StepEnd> {
  const { running, list, planned, env, scope, signal, continuesOnError } = options
  const { step, action, steps } = planned
  const { run, files } = running
  const isTolerated = list.continuesOnError || continuesOnError
  let inputs: Record<string, string>
  let timeoutMs: number | undefined
  try {
    inputs = await files.evaluate(() =>
      actionInputs(action, evaluateEnvironment(step.with, scope), scope),
    )
    const minutes = await files.evaluate(() => evaluateNumber(step.timeoutMinutes, scope))
    timeoutMs = minutes === undefined ? undefined : minutes * 60_000
  } catch (error) {
    const fault = toFault(error)
    await emitFailure(running, planned, fault, isTolerated)
    return ended('failure', { fault })
  }

  const killSignal = new AbortController()
  using _outer = onAbort(list.killSignal, () => killSignal.abort(list.killSignal.reason))
  const cancelSignal = new AbortController()
  using _signal = onAbort(signal, () => cancelSignal.abort(signal.reason))
  using _timer =
    timeoutMs === undefined
      ? undefined
      : afterTime(timeoutMs, () => {
          const text = `The step exceeded its time limit of ${durationInWords(timeoutMs)}.`
          const why: CancelReason = { conclusion: 'timed_out', text }
          cancelSignal.abort(why)
          killSignal.abort(why)
        })
  const name = await files.evaluate(() => stepNameOf(step, scope, run.masker))
  const inner: StepList = {
    names: [...list.names, name],
    results: {},
    failed: undefined,
    cancelSignal: cancelSignal.signal,
    killSignal: killSignal.signal,
    env: { ...env, ...inputVariables(inputs) },
    inputs,
    actionPath: posix.join(running.workspace.inside.workspace, action.path),
    defaults: [],
    continuesOnError: isTolerated,
  }
  await runSteps(running, inner, steps)
  const fail = async (end: StepEnd) => {
    await reportAddedStep(running, { name: joinNames(inner.names), isTolerated, end })
    return end
  }
  // A cancellation after the last step has no effect.
  const stop: CancelReason | undefined = cancelSignal.signal.aborted
    ? cancelSignal.signal.reason
    : undefined
  const conclusion = inner.failed ?? stop?.conclusion ?? 'success'
  const ownTimeout = inner.failed ? undefined : ownTimeoutOf(running, stop)
  if (ownTimeout) return fail(ownTimeout)
  try {
    return ended(conclusion, { outputs: await outputsOf(running, inner, planned) })
  } catch (error) {
    return fail(ended('failure', { fault: toFault(error) }))
  }
}

/** The end of an action that timed out between two of its steps; undefined when the whole job is cancelled. */
function ownTimeoutOf(
  { cancellation }: RunningJob,
  stop: CancelReason | undefined,
): StepEnd | undefined {
  if (stop?.conclusion !== 'timed_out' || cancellation.cancelSignal.aborted) return undefined
  return ended('timed_out', { fault: stop.text })
}

function outputsOf(
  running: RunningJob,
  inner: StepList,
  { step, action }: PlannedAction,
): Promise<Record<string, string>> {
  const env = { ...running.env, ...inner.env }
  const scope = stepScope(running, inner, step, env)
  return running.files.evaluate(() => evaluateEnvironment(action.outputs, scope))
}
