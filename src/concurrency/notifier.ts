export type Notifier = ReturnType<typeof createNotifier>

// Another server of the same database may have changed what is waited for.
const lookAgainMs = 2000

/** Tells whoever waits in this process that something has changed, by a name: a run's id, or `queue`. */
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

    /** Calls a function at each change until it is disposed of. */
    onChange(name: string, listener: () => void): Disposable {
      const all = listeners.get(name) ?? new Set()
      listeners.set(name, all.add(listener))
      return { [Symbol.dispose]: () => void all.delete(listener) }
    },

    /**
     * Waits until `look` finds something, looking again at each change and from time to time. Undefined when it has
     * not by the deadline (of performance.now()), or when the signal is aborted.
     */
    async until<T>(
      name: string,
      { deadline, signal }: { deadline: number; signal: AbortSignal },
      look: () => Promise<T | undefined>,
    ): Promise<T | undefined> {
      for (;;) {
        // Listens before it looks, so that no change falls in between.
        const change = listen(name)
        try {
          // Whoever has gone is given nothing any more.
          if (signal.aborted) return undefined
          const found = await look()
          const left = deadline - performance.now()
          if (found !== undefined || left <= 0) return found
          await change.within(Math.min(left, lookAgainMs), signal)
        } finally {
          change.forget()
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
        const timer = setTimeout(resolve, milliseconds)
        const onAbort = () => resolve()
        signal.addEventListener('abort', onAbort)
        await promise
        signal.removeEventListener('abort', onAbort)
        clearTimeout(timer)
      },
      forget(): void {
        all.delete(resolve)
        if (all.size === 0 && waiting.get(name) === all) waiting.delete(name)
      },
    }
  }
}
