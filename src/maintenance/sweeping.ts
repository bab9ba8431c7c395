import type { Log } from '../base/log.ts'

const sweepIntervalMs = 60_000

/** Runs each task once a minute, until disposed. The keys name the tasks in the log. */
export function startSweeping(tasks: Record<string, () => Promise<unknown>>, log: Log): Disposable {
  const timer = setInterval(() => {
    for (const [name, task] of Object.entries(tasks)) {
      task().catch((error) => log.error({ err: error }, `${name} failed`))
    }
  }, sweepIntervalMs)
  return { [Symbol.dispose]: () => clearInterval(timer) }
}
