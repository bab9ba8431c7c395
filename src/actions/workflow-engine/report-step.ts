import { isDebugging } from './contexts.ts'
import { createAnnotationCounter, toAnnotation } from './output/annotations.ts'
import { createStepOutput, type StepOutput } from './output/step-output.ts'
import type { Conclusion } from './plan.ts'
import { isFailure } from './planning/job-graph.ts'
import { numberedSteps, type PlannedStep, type ReportedStep } from './planning/plan-steps.ts'
import type { RunState } from './run-state.ts'
import type { RunningJob } from './running-job.ts'
import { ended, type StepEnd, toFault } from './step-end.ts'

/** Reports a failure that is none of the planned steps', as a step of its own. */
export async function reportAddedStep(
  running: RunningJob,
  { name, isTolerated, end }: { name: string; isTolerated: boolean; end: StepEnd },
): Promise<void> {
  const { run, planned } = running
  const step = { number: run.nextStep(), name }
  await run.emit({ kind: 'step-planned', job: planned.number, step: step.number, name })
  await reportStep({ running, planned: step, name, isTolerated }, async () => end)
}

type Options = {
  running: RunningJob
  /** The step as it was planned. */
  planned: ReportedStep
  /** Its present name. */
  name: string
  /** Whether a failure counts as success in the run. */
  isTolerated: boolean
}

/** Runs a step, and reports its start, output and end. An error of `work` becomes the fault of the step. */
export async function reportStep(
  { running, planned, name, isTolerated }: Options,
  work: (output: StepOutput) => Promise<StepEnd>,
): Promise<StepEnd> {
  const { run, workspace } = running
  const { number: step } = planned
  const renamed = name === planned.name ? {} : { name }
  await run.emit({ kind: 'step-started', step, at: run.now(), ...renamed })
  const mayAnnotate = createAnnotationCounter(run.annotationLimits)
  const output = createStepOutput({
    masker: run.masker,
    outputMaxBytes: run.plan.limits.outputMaxBytes,
    emit: (text) => run.emit({ kind: 'output', step, text }),
    async onAnnotation({ level, properties, message }) {
      if (!mayAnnotate(level)) return
      const annotation = toAnnotation(level, properties, message, workspace.inside.workspace)
      await run.emit({ kind: 'annotation', step, ...annotation })
    },
    showsDebug: isDebugging(run.plan),
  })
  const end = await work(output).catch((error) => ended('failure', { fault: toFault(error) }))
  await output.end()
  const conclusion = applyContinueOnError(end.conclusion, isTolerated)
  const { exitCode, fault, summary } = end
  const at = run.now()
  await run.emit({ kind: 'step-ended', step, at, conclusion, exitCode, fault, summary })
  return end
}

type EmitContext = { run: RunState }

/** The conclusion of a step or job after `continue-on-error`: a tolerated failure is a success. */
export function applyContinueOnError(
  conclusion: Conclusion,
  continuesOnError: boolean,
): Conclusion {
  return isFailure(conclusion) && continuesOnError ? 'success' : conclusion
}

/** Reports that a step failed before it started. */
export async function emitFailure(
  { run }: EmitContext,
  planned: PlannedStep,
  fault: string,
  continuesOnError: boolean,
): Promise<void> {
  const [first, ...others] = numberedSteps(planned)
  if (!first) {
    await run.emit({ kind: 'output', step: null, text: `${fault}\n` })
    return
  }
  const at = run.now()
  const { number: step } = first
  await run.emit({ kind: 'step-started', step, at })
  await run.emit({
    kind: 'step-ended',
    step,
    at,
    conclusion: applyContinueOnError('failure', continuesOnError),
    exitCode: null,
    fault,
    summary: '',
  })
  for (const other of others) await emitEnds({ run }, other, ended('skipped'))
}

/** Reports the end of steps that do not run. */
export async function emitEnds(
  { run }: EmitContext,
  planned: PlannedStep,
  end: StepEnd,
): Promise<void> {
  for (const { number } of numberedSteps(planned)) await emitEnd(run, number, end)
}

/** Reports the end of a step that does not run. */
export async function emitEnd(
  run: RunState,
  step: number,
  { conclusion, fault }: StepEnd,
): Promise<void> {
  const at = run.now()
  await run.emit({ kind: 'step-ended', step, at, conclusion, exitCode: null, fault, summary: '' })
}
