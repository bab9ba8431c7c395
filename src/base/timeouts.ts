import { setTimeout as sleep } from 'node:timers/promises'

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
  const timer = setTimeout(() => reject(toTimeoutError()), milliseconds)
  try {
    return await Promise.race([work, promise])
  } finally {
    clearTimeout(timer)
  }
}

/** Waits; rejects with the signal's reason when it is aborted. */
export async function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  await sleep(Math.max(0, milliseconds), undefined, { signal }).catch(() => {})
  signal.throwIfAborted()
}
