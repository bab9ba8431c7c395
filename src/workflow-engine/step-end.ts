import type { CommandEnd } from '../sandbox/sandbox.ts'
import type { Stop } from './cancellation.ts'
import type { Conclusion } from './plan.ts'

/** How a step ended by itself, before `continue-on-error` is asked. */
export type StepEnd = {
  conclusion: Conclusion
  exitCode: number | null
  fault: string
  summary: string
  outputs: Record<string, string>
}

export function ended(conclusion: Conclusion, more: Partial<StepEnd> = {}): StepEnd {
  return { conclusion, exitCode: null, fault: '', summary: '', outputs: {}, ...more }
}

/** What the end of a command means for its step. */
export function stepEndOf(
  { exitCode, reason, detail }: CommandEnd,
  { timeoutMs, stop }: { timeoutMs: number; stop: Stop | undefined },
): StepEnd {
  switch (reason) {
    case 'exited':
      return ended(exitCode === 0 ? 'success' : 'failure', { exitCode })
    case 'timed-out':
      return ended('timed_out', { fault: `It took longer than ${toDuration(timeoutMs)}.` })
    case 'cancelled':
      return ended(stop?.conclusion ?? 'cancelled', { fault: stop?.text ?? '' })
    case 'out-of-memory':
    case 'out-of-disk':
    case 'not-started':
      return ended('failure', { fault: detail || `It was ended: ${reason.replaceAll('-', ' ')}.` })
  }
}

/** What `steps.<id>.outcome` and `.conclusion` say: GitHub knows no time-out there. */
export function wordOf(conclusion: Conclusion): string {
  return conclusion === 'timed_out' ? 'failure' : conclusion
}

/** A time in the words of people. */
export function toDuration(milliseconds: number): string {
  const seconds = milliseconds / 1000
  if (seconds < 60) return counted(Number(seconds.toFixed(1)), 'second')
  return counted(Number((seconds / 60).toFixed(1)), 'minute')
}

function counted(count: number, unit: string): string {
  return `${count} ${unit}${count === 1 ? '' : 's'}`
}
