import type { Conclusion } from './plan.ts'
import { commandsOf, type PlannedStep } from './plan-steps.ts'
import type { RunState } from './run-state.ts'
import { ended, type StepEnd } from './step-end.ts'

type Telling = { run: RunState }

/** What a conclusion is for those who come after, where a failure is to be passed over. */
export function passOver(conclusion: Conclusion, isPassedOver: boolean): Conclusion {
  const isFailed = conclusion === 'failure' || conclusion === 'timed_out'
  return isFailed && isPassedOver ? 'success' : conclusion
}

/** Tells that a step failed before anything of it ran. */
export async function emitFailure(
  { run }: Telling,
  planned: PlannedStep,
  fault: string,
  isPassedOver: boolean,
): Promise<void> {
  const [first, ...others] = commandsOf(planned)
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
    conclusion: passOver('failure', isPassedOver),
    exitCode: null,
    fault,
    summary: '',
  })
  for (const other of others) await emitEnds({ run }, other, ended('skipped'))
}

/** Tells of steps that do not run. */
export async function emitEnds(
  { run }: Telling,
  planned: PlannedStep,
  { conclusion, fault }: StepEnd,
): Promise<void> {
  for (const { number: step } of commandsOf(planned)) {
    const at = run.now()
    await run.emit({ kind: 'step-ended', step, at, conclusion, exitCode: null, fault, summary: '' })
  }
}
