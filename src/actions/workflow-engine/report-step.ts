import { createAnnotationCounter, toAnnotation } from './annotations.ts'
import { isDebugging } from './debugging.ts'
import { applyContinueOnError } from './emit-steps.ts'
import type { ReportedStep } from './plan-steps.ts'
import type { RunningJob } from './running-job.ts'
import { ended, type StepEnd } from './step-end.ts'
import { createStepOutput, type StepOutput } from './step-output.ts'
import { toFault } from './to-fault.ts'

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
