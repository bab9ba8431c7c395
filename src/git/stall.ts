import { Problem } from '../base/problem.ts'

export type StallWatch = Disposable & { signal: AbortSignal; progress: () => void }

const looksPerTimeout = 4

/** A signal that is aborted when a time has passed: for what must have arrived by then. */
export function deadline(timeoutMs: number): Disposable & { signal: AbortSignal } {
  const late = new AbortController()
  const timer = setTimeout(() => {
    const detail = `The request did not arrive within ${timeoutMs / 1000} seconds.`
    late.abort(new Problem('request_timed_out', detail))
  }, timeoutMs)
  return { signal: late.signal, [Symbol.dispose]: () => clearTimeout(timer) }
}

/**
 * A signal that is aborted when `isWaiting` (for the client to send or to read) has held for a time
 * in which nothing moved. A git that computes is not waited for by this.
 */
export function watchStall(timeoutMs: number, isWaiting: () => boolean): StallWatch {
  const stalled = new AbortController()
  let last = performance.now()
  const timer = setInterval(() => {
    if (!isWaiting()) last = performance.now()
    if (performance.now() - last < timeoutMs) return
    stalled.abort(
      new Problem('request_timed_out', `Nothing moved for ${timeoutMs / 1000} seconds.`),
    )
  }, timeoutMs / looksPerTimeout)
  return {
    signal: stalled.signal,
    progress() {
      last = performance.now()
    },
    [Symbol.dispose]: () => clearInterval(timer),
  }
}
