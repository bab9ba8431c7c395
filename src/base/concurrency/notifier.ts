export type Notifier = ReturnType<typeof createNotifier>

// Polls, too: another server of the same database does not notify this one.
const pollIntervalMs = 2000

/** Notifies waiters in this process of changes, by name: a run's id, or `queue`. */
export function createNotifier() {
  const waiting = new Map<string, Set<() => void>>()
  const listeners = new Map<string, Set<() => void>>()

  return {
    notify(name: string): void {
      const all = waiting.get(name)
      waiting.delete(name)
      for (const wake of all ?? []) wake()
      for (const listener of listeners.get(name) ?? []) listener()
    },

    /** Calls a listener at each change, until disposed. */
    onChange(name: string, listener: () => void): Disposable {
      const all = listeners.get(name) ?? new Set()
      listeners.set(name, all.add(listener))
      return { [Symbol.dispose]: () => void all.delete(listener) }
    },

    /**
     * Waits until `poll` finds something, calling it after each change and every 2 s. Returns undefined at the deadline (in
     * terms of performance.now()) and when the signal is aborted.
     */
    async until<T>(
      name: string,
      { deadline, signal }: { deadline: number; signal: AbortSignal },
      poll: () => Promise<T | undefined>,
    ): Promise<T | undefined> {
      for (;;) {
        // Listens before it polls, so that it misses no change.
        const change = listen(name)
        try {
          if (signal.aborted) return undefined
          const found = await poll()
          const remainingMs = deadline - performance.now()
          if (found !== undefined || remainingMs <= 0) return found
          await change.within(Math.min(remainingMs, pollIntervalMs), signal)
        } finally {
          change.unsubscribe()
        }
      }
    },
  }

  function listen(name: string) {
    const { promise, resolve } = Promise.withResolvers<void>()
    const all = waiting.get(name) ?? new Set()
    waiting.set(name, all.add(resolve))
    return {
      async within(milliseconds: number, signal: AbortSignal): Promise<void> {
        using _timer = setTimeout(resolve, milliseconds)
        const onAbort = () => resolve()
        signal.addEventListener('abort', onAbort)
        await promise
        signal.removeEventListener('abort', onAbort)
      },
      unsubscribe(): void {
        all.delete(resolve)
        if (all.size === 0 && waiting.get(name) === all) waiting.delete(name)
      },
    }
  }
}
