/** Room for so many jobs at a time, shared by all runs of a runner. */
export type Semaphore = {
  /** Waits for a free slot; disposing of it frees it. Rejects with the signal's reason. First come, first served. */
  acquire: (signal: AbortSignal) => Promise<Disposable>
}

/** Slots for `count` jobs at a time. */
export function createSemaphore(count: number): Semaphore {
  const waiting = new Set<() => void>()
  let free = count

  function take(): Disposable {
    free--
    let isHeld = true
    return {
      [Symbol.dispose]() {
        if (!isHeld) return
        isHeld = false
        free++
        const [next] = waiting
        next?.()
      },
    }
  }

  return {
    async acquire(signal) {
      signal.throwIfAborted()
      if (free > 0) return take()
      const { promise, resolve, reject } = Promise.withResolvers<Disposable>()
      const onFree = () => {
        waiting.delete(onFree)
        resolve(take())
      }
      const onAbort = () => {
        waiting.delete(onFree)
        reject(signal.reason)
      }
      waiting.add(onFree)
      signal.addEventListener('abort', onAbort, { once: true })
      return promise.finally(() => signal.removeEventListener('abort', onAbort))
    },
  }
}
