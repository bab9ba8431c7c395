import { evaluateCondition } from '../workflow-parser/expressions/evaluate.ts'
import type { Scope } from '../workflow-parser/expressions/scope.ts'
import type { Template } from '../workflow-parser/workflow.ts'
import { onAbort } from './cancellation.ts'
import type { RunningJob, StepList } from './running-job.ts'

type Conditional = { condition: Template | undefined; scope: Scope }

/**
 * A signal for a step that starts now: aborted when its job is killed, or cancelled while the step's condition does not
 * hold in spite of that.
 */
export function followCancellation(
  running: RunningJob,
  list: Pick<StepList, 'cancelSignal' | 'killSignal'>,
  conditional: Conditional,
): Disposable & { signal: AbortSignal } {
  const { cancelSignal, killSignal } = list
  const cancellation = new AbortController()
  const abortWith = ({ reason }: AbortSignal) => cancellation.abort(reason)
  const onKill = onAbort(killSignal, () => abortWith(killSignal))
  // A step whose condition holds in spite of a cancellation keeps running, like one that starts after it.
  const onCancel = cancelSignal.aborted
    ? undefined
    : onAbort(cancelSignal, () => {
        if (!holdsWhenCancelled(running, conditional)) abortWith(cancelSignal)
      })
  return {
    signal: cancellation.signal,
    [Symbol.dispose]() {
      onKill[Symbol.dispose]()
      onCancel?.[Symbol.dispose]()
    },
  }
}

// Nothing is hashed, since the processes of the step may write meanwhile: what hashFiles() has not hashed before the step
// is empty.
function holdsWhenCancelled(running: RunningJob, { condition, scope }: Conditional): boolean {
  if (running.cancellation.killSignal.aborted) return false
  try {
    const status = { success: false, failure: false, cancelled: true }
    return evaluateCondition(condition, { ...scope, status })
  } catch {
    return false
  }
}
