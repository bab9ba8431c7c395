import { unsupportedOf } from '../workflow-parser/runnable.ts'
import type { Job } from '../workflow-parser/workflow.ts'
import type { Cancellation } from './cancellation.ts'
import type { JobEnd } from './execute-job.ts'
import type { Conclusion } from './plan.ts'
import { isFailure } from './planning/job-graph.ts'
import type { PlannedJob } from './planning/plan-job.ts'
import { preStepsOf } from './planning/plan-steps.ts'
import { emitEnd, emitEnds } from './report-step.ts'
import type { RunState } from './run-state.ts'
import { ended, toFault } from './step-end.ts'

/** Whether the `if` of a job holds, depending on whether the run is cancelled. */
export type Holds = (cancelled: boolean) => boolean

/** The end of a job that does not run. */
export type Unrun = { conclusion: Conclusion; fault: string }

/** Why a job does not run; undefined when it does. */
export function whyUnrun({ cancellation }: RunState, holds: Holds): Unrun | undefined {
  try {
    const isRunCancelled = cancellation.cancelSignal.aborted
    if (holds(isRunCancelled)) return undefined
    const isCancelled = isRunCancelled && holds(false)
    return isCancelled
      ? { conclusion: 'cancelled', fault: cancellation.why()?.text ?? '' }
      : { conclusion: 'skipped', fault: '' }
  } catch (error) {
    return { conclusion: 'failure', fault: toFault(error) }
  }
}

/** Why no runner can run a job; undefined when one can. */
export function whyUnsupported({ actions }: RunState, job: Job): Unrun | undefined {
  const [fault] = unsupportedOf(job, actions)
  return fault && { conclusion: 'skipped', fault: `skipped: ${fault.message}` }
}

/** Why a job ends before it starts: it, or its run, is cancelled. */
export function whyCancelled({ why }: Cancellation): Unrun {
  const { conclusion = 'cancelled', text: fault = '' } = why() ?? {}
  return { conclusion, fault }
}

/** Whether the `if` of a job holds in spite of a cancellation. */
export function holdsSafely(holds: Holds): boolean {
  try {
    return holds(true)
  } catch {
    return false
  }
}

/** Reports a job that does not run. */
export async function emitUnrunJob(
  run: RunState,
  planned: PlannedJob,
  { conclusion, fault }: Unrun,
): Promise<JobEnd> {
  const skipped = ended('skipped')
  for (const { pre } of preStepsOf(planned.steps)) await emitEnd(run, pre.number, skipped)
  for (const step of planned.steps) await emitEnds({ run }, step, skipped)
  const end = { conclusion, outputs: {}, fault }
  await emitJobEnd(run, planned, end)
  return end
}

export async function emitJobEnd(
  run: RunState,
  { number: job }: PlannedJob,
  end: JobEnd,
  continuesOnError = false,
): Promise<void> {
  const isTolerated = continuesOnError && isFailure(end.conclusion)
  const tolerance = isTolerated && ({ isTolerated } as const)
  await run.emit({ kind: 'job-ended', job, at: run.now(), ...end, ...tolerance })
}
