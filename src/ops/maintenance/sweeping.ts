import { createPoller } from '#base/concurrency/poller.ts'
import type { Log } from '#base/log.ts'

const sweepIntervalMs = 60_000

/** Runs each task once a minute, until disposed. The keys name the tasks in the log. */
export function startSweeping(tasks: Record<string, () => Promise<unknown>>, log: Log): Disposable {
  const pollers = Object.entries(tasks).map(([name, task]) =>
    createPoller({
      intervalMs: sweepIntervalMs,
      async run() {
        await task()
      },
      onError: (error) => log.error({ err: error }, `${name} failed`),
    }),
  )
  return {
    // Does not wait: a task may take long.
    [Symbol.dispose]() {
      for (const poller of pollers) void poller[Symbol.asyncDispose]()
    },
  }
}
