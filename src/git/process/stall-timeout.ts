import { Problem } from '../../base/problem.ts'

export type StallWatch = Ending & { progress: () => void }

const looksPerTimeout = 4

type Ending = Disposable & { signal: AbortSignal }

/** A signal that is aborted when another one is, or a time has passed: for what must have arrived by then. */
export function deadline(timeoutMs: number, outer: AbortSignal): Ending {
  const late = new AbortController()
  const following = follow(late, outer)
  const timer = setTimeout(() => {
    const detail = `The request did not arrive within ${timeoutMs / 1000} seconds.`
    late.abort(new Problem('request_timed_out', detail))
  }, timeoutMs)
  return {
    signal: late.signal,
    [Symbol.dispose]() {
      following[Symbol.dispose]()
      clearTimeout(timer)
    },
  }
}

/**
 * A signal that is aborted when another one is, or `isWaiting` (for the client to send or to read) has held for a
 * time in which nothing moved. A git that computes is not waited for by this.
 */
export function watchStall(
  timeoutMs: number,
  isWaiting: () => boolean,
  outer: AbortSignal,
): StallWatch {
  const stalled = new AbortController()
  const following = follow(stalled, outer)
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
    [Symbol.dispose]() {
      following[Symbol.dispose]()
      clearInterval(timer)
    },
  }
}

// AbortSignal.any would have the garbage collector find out when nobody follows any more; this is told, which costs less.
function follow(controller: AbortController, signal: AbortSignal): Disposable {
  const abort = () => controller.abort(signal.reason)
  if (signal.aborted) abort()
  signal.addEventListener('abort', abort)
  return { [Symbol.dispose]: () => signal.removeEventListener('abort', abort) }
}
