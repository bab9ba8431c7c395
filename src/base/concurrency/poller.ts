type Options = {
  /** The time between two runs; undefined for runs only when woken. */
  intervalMs: number | undefined
  /** May return the time until the next run, if it differs. The signal is aborted when the poller is disposed. */
  run: (signal: AbortSignal) => Promise<number | undefined> | Promise<void>
  onError: (error: unknown) => void
}

/** Disposing it stops the poller and waits for the current run. */
export type Poller = AsyncDisposable & {
  /** Runs at once, or once more after the current run. */
  wake: () => void
}

/** Runs work at an interval and when woken, never concurrently. Does not keep the process alive. */
export function createPoller({ intervalMs, run, onError }: Options): Poller {
  const stopping = new AbortController()
  const { signal } = stopping
  let running: Promise<void> | undefined
  let isWakePending = false
  let timer: NodeJS.Timeout | undefined

  function wake(): void {
    isWakePending = running !== undefined
    if (signal.aborted || running) return
    clearTimeout(timer)
    running = attempt().then((nextMs) => {
      running = undefined
      if (isWakePending) wake()
      else schedule(nextMs)
    })
  }

  async function attempt(): Promise<number | undefined> {
    try {
      const nextMs = await run(signal)
      return typeof nextMs === 'number' ? nextMs : intervalMs
    } catch (error) {
      onError(error)
      return intervalMs
    }
  }

  function schedule(delayMs: number | undefined): void {
    if (delayMs !== undefined && !signal.aborted) timer = setTimeout(wake, delayMs).unref()
  }

  schedule(intervalMs)

  return {
    wake,

    async [Symbol.asyncDispose]() {
      stopping.abort()
      clearTimeout(timer)
      await running
    },
  }
}
