/** Why something is ended before its time, and what it then counts as. */
export type Stop = { conclusion: 'cancelled' | 'timed_out'; text: string }

/** How a run, or a job of it, is ended: first its usual steps, and after a grace whatever still runs. */
export type Cancellation = Disposable & {
  /** Aborted first: what runs is to end, and only what asks for it, by always() or cancelled(), still begins. */
  soft: AbortSignal
  /** Aborted at last: everything ends, nothing begins. */
  hard: AbortSignal
  stop: (why: Stop) => void
  kill: (why: Stop) => void
  why: () => Stop | undefined
}

/** Time for steps that run in spite of a cancellation. */
const graceMs = 60_000

export function createCancellation(): Cancellation {
  const soft = new AbortController()
  const hard = new AbortController()
  let reason: Stop | undefined
  let timer: NodeJS.Timeout | undefined

  function kill(why: Stop): void {
    clearTimeout(timer)
    reason ??= why
    // First, so that nobody waits for a step to end by itself.
    hard.abort(reason)
    soft.abort(reason)
  }

  return {
    soft: soft.signal,
    hard: hard.signal,
    stop(why) {
      if (reason) return
      reason = why
      timer = setTimeout(() => kill(why), graceMs)
      soft.abort(why)
    },
    kill,
    why: () => reason,
    [Symbol.dispose]: () => clearTimeout(timer),
  }
}

/** Calls back when a signal is aborted, or at once when it is already; disposing of it forgets the signal. */
export function onAbort(signal: AbortSignal, callback: () => void): Disposable {
  if (signal.aborted) callback()
  else signal.addEventListener('abort', callback, { once: true })
  return { [Symbol.dispose]: () => signal.removeEventListener('abort', callback) }
}

/** Calls back after a time that may be longer than a timer of Node can be. */
export function afterTime(milliseconds: number, callback: () => void): Disposable {
  const timer = setTimeout(callback, Math.min(milliseconds, 2 ** 31 - 1))
  return { [Symbol.dispose]: () => clearTimeout(timer) }
}
