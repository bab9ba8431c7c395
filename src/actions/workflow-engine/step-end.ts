import { pathlessMessage } from '#base/pathless-message.ts'
import type { CommandEnd } from '../sandbox/sandbox.ts'
import { ExpressionError } from '../workflow-parser/expressions/scope.ts'
import type { CancelReason } from './cancellation.ts'
import type { Conclusion } from './plan.ts'

/** The end of a step, before `continue-on-error` applies. */
export type StepEnd = {
  conclusion: Conclusion
  exitCode: number | null
  fault: string
  summary: string
  outputs: Record<string, string>
  /** The state that it saved for its `post` program. */
  state: Record<string, string>
}

export function ended(conclusion: Conclusion, more: Partial<StepEnd> = {}): StepEnd {
  return { conclusion, exitCode: null, fault: '', summary: '', outputs: {}, state: {}, ...more }
}

/** Translates the end of a command into the end of its step. */
export function stepEndOf(
  { exitCode, reason, detail }: CommandEnd,
  { timeoutMs, stop }: { timeoutMs: number; stop: CancelReason | undefined },
): StepEnd {
  switch (reason) {
    case 'exited':
      return ended(exitCode === 0 ? 'success' : 'failure', { exitCode })
    case 'timed-out':
      return ended('timed_out', {
        fault: `The step exceeded its time limit of ${durationInWords(timeoutMs)}.`,
      })
    case 'cancelled':
      return ended(stop?.conclusion ?? 'cancelled', { fault: stop?.text ?? '' })
    case 'out-of-memory':
    case 'out-of-disk':
    case 'not-started':
      return ended('failure', {
        fault: detail || `The step was killed: ${reason.replaceAll('-', ' ')}.`,
      })
  }
}

/** The value of `steps.<id>.outcome` and `.conclusion`, where GitHub has no time-out. */
export function toContextConclusion(conclusion: Conclusion): string {
  return conclusion === 'timed_out' ? 'failure' : conclusion
}

/** Formats a duration, such as "5 minutes". */
export function durationInWords(milliseconds: number): string {
  const seconds = milliseconds / 1000
  if (seconds < 60) return pluralize(Number(seconds.toFixed(1)), 'second')
  return pluralize(Number((seconds / 60).toFixed(1)), 'minute')
}

function pluralize(count: number, unit: string): string {
  return `${count} ${unit}${count === 1 ? '' : 's'}`
}

/** Formats an error for users, with its position in the workflow file if it has one. */
export function toFault(error: unknown): string {
  if (error instanceof ExpressionError) {
    const { file, line, column } = error.position
    return `${file}:${line}:${column}: ${error.message}`
  }
  return error instanceof Error ? pathlessMessage(error) : String(error)
}
