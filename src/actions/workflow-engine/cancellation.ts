/** Why a run, job or step is cancelled, and its conclusion. */
export type CancelReason = { conclusion: 'cancelled' | 'timed_out'; text: string }

/** Cancels a run or a job: first its ordinary steps, and after a grace period everything. */
export type Cancellation = Disposable & {
  /** Aborted first: running steps end, and only steps with always() or cancelled() still start. */
  cancelSignal: AbortSignal
  /** Aborted last: everything ends, nothing starts. */
  killSignal: AbortSignal
  cancel: (why: CancelReason) => void
  kill: (why: CancelReason) => void
  why: () => CancelReason | undefined
}

/** Time for steps that run in spite of a cancellation. */
const graceMs = 60_000

export function createCancellation(): Cancellation {
  const cancelSignal = new AbortController()
  const killSignal = new AbortController()
  let reason: CancelReason | undefined
  let timer: NodeJS.Timeout | undefined

  function kill(why: CancelReason): void {
    clearTimeout(timer)
    reason ??= why
    // Before the other signal, so that no step gets a chance to end by itself.
    killSignal.abort(reason)
    cancelSignal.abort(reason)
  }

  return {
    cancelSignal: cancelSignal.signal,
    killSignal: killSignal.signal,
    cancel(why) {
      if (reason) return
      reason = why
      timer = setTimeout(() => kill(why), graceMs)
      cancelSignal.abort(why)
    },
    kill,
    why: () => reason,
    [Symbol.dispose]: () => clearTimeout(timer),
  }
}

/** Calls back when a signal is aborted, or at once if it already is; disposing removes the listener. */
export function onAbort(signal: AbortSignal, callback: () => void): Disposable {
  if (signal.aborted) callback()
  else signal.addEventListener('abort', callback, { once: true })
  return { [Symbol.dispose]: () => signal.removeEventListener('abort', callback) }
}

/** Calls back after a delay, which is capped at the longest timer of Node (2^31 - 1 ms). */
export function afterTime(milliseconds: number, callback: () => void): Disposable {
  const timer = setTimeout(callback, Math.min(milliseconds, 2 ** 31 - 1))
  return { [Symbol.dispose]: () => clearTimeout(timer) }
}
