import { setTimeout as sleep } from 'node:timers/promises'
import { Problem } from './problem.ts'

/** Waits for a promise until a signal is aborted; then it rejects with the signal's reason. */
export async function orAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const stop = Promise.withResolvers<never>()
  const onAbort = () => stop.reject(signal.reason)
  if (signal.aborted) onAbort()
  signal.addEventListener('abort', onAbort)
  try {
    return await Promise.race([work, stop.promise])
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}

/** Waits for a promise, for a limited time; then it rejects with the error that `toTimeoutError` makes. */
export async function within<T>(
  milliseconds: number,
  work: Promise<T>,
  toTimeoutError = () => new Error(`no response within ${milliseconds / 1000} s`),
): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>()
  using _timer = setTimeout(() => reject(toTimeoutError()), milliseconds)
  return await Promise.race([work, promise])
}

/** Waits; rejects with the signal's reason when it is aborted. */
export async function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  await sleep(Math.max(0, milliseconds), undefined, { signal }).catch(() => {})
  signal.throwIfAborted()
}

export type StallWatch = Ending & { progress: () => void }

const checksPerTimeout = 4

type Ending = Disposable & { signal: AbortSignal }

/** Returns a signal that is aborted after a time, with a reason. */
export function abortAfter(milliseconds: number, reason: Problem): Ending {
  const controller = new AbortController()
  const timer = setTimeout(() => controller.abort(reason), milliseconds)
  return { signal: controller.signal, [Symbol.dispose]: () => clearTimeout(timer) }
}

/** Returns a signal that is aborted with `outer`, or when a request has not arrived in time. */
export function deadline(timeoutMs: number, outer: AbortSignal): Ending {
  const controller = new AbortController()
  const following = follow(controller, outer)
  const timer = setTimeout(() => {
    const detail = `The request did not arrive within ${timeoutMs / 1000} seconds.`
    controller.abort(new Problem('request_timed_out', detail))
  }, timeoutMs)
  return {
    signal: controller.signal,
    [Symbol.dispose]() {
      following[Symbol.dispose]()
      clearTimeout(timer)
    },
  }
}

/**
 * Returns a signal that is aborted with `outer`, or when `isWaiting` (for the client to send or read) has been true
 * without progress for the whole timeout. Time in which git computes does not count.
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
      new Problem('request_timed_out', `No data was transferred for ${timeoutMs / 1000} seconds.`),
    )
  }, timeoutMs / checksPerTimeout)
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

// Explicit disposal is cheaper than AbortSignal.any, which leaves unsubscribing to the garbage collector.
function follow(controller: AbortController, signal: AbortSignal): Disposable {
  const abort = () => controller.abort(signal.reason)
  if (signal.aborted) abort()
  signal.addEventListener('abort', abort)
  return { [Symbol.dispose]: () => signal.removeEventListener('abort', abort) }
}
