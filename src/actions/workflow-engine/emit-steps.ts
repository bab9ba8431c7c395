import { isFailure } from './job-graph.ts'
import type { Conclusion } from './plan.ts'
import { numberedSteps, type PlannedStep } from './plan-steps.ts'
import type { RunState } from './run-state.ts'
import { ended, type StepEnd } from './step-end.ts'

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
