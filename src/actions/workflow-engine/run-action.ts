import { posix } from 'node:path'
import { actionInputs, inputVariables } from './action-inputs.ts'
import { afterTime, type CancelReason, onAbort } from './cancellation.ts'
import { emitFailure } from './emit-steps.ts'
import { evaluateEnvironment, evaluateNumber } from './evaluate-settings.ts'
import { joinNames, type PlannedAction, type PlannedStep, stepNameOf } from './plan-steps.ts'
import { reportAddedStep } from './report-step.ts'
import { type RunningJob, type RunningStep, type StepList, stepScope } from './running-job.ts'
import { durationInWords, ended, type StepEnd } from './step-end.ts'
import { toFault } from './to-fault.ts'

type RunOptions = Omit<RunningStep, 'number' | 'output'> & {
  planned: PlannedAction
  continuesOnError: boolean
  runSteps: (running: RunningJob, list: StepList, steps: readonly PlannedStep[]) => Promise<void>
}

/** Runs the steps of a composite action for the step that uses it. */
export async function runAction(options: RunOptions): Promise<StepEnd> {
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
  await options.runSteps(running, inner, steps)
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

/** The end of an action whose time was over between two of its steps, unless that of the job is over as well. */
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
