export type Semaphore = {
  /** Waits for a permit, first come, first served; dispose it to release it. Rejects with the signal's reason. */
  acquire: (signal: AbortSignal) => Promise<Disposable>
}

/** Creates a semaphore with `count` permits. */
export function createSemaphore(count: number): Semaphore {
  const waiting = new Set<() => void>()
  let available = count

  function grant(): Disposable {
    available--
    let isHeld = true
    return {
      [Symbol.dispose]() {
        if (!isHeld) return
        isHeld = false
        available++
        const [next] = waiting
        next?.()
      },
    }
  }

  return {
    async acquire(signal) {
      signal.throwIfAborted()
      if (available > 0) return grant()
      const { promise, resolve, reject } = Promise.withResolvers<Disposable>()
      const onRelease = () => {
        waiting.delete(onRelease)
        resolve(grant())
      }
      const onAbort = () => {
        waiting.delete(onRelease)
        reject(signal.reason)
      }
      waiting.add(onRelease)
      signal.addEventListener('abort', onAbort, { once: true })
      return promise.finally(() => signal.removeEventListener('abort', onAbort))
    },
  }
}
