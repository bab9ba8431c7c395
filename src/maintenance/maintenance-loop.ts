import type { Log } from '../base/log.ts'
import type { Maintenance } from './maintenance.ts'

type Options = { maintenance: Maintenance; log: Log }

const firstCheckDelayMs = 5000
const dueIntervalMs = 60_000
const pollIntervalMs = 2000

/**
 * Maintains due repositories one at a time: checks soon after the start, and then every minute. Requested maintenance,
 * as after an import or a large push, starts within seconds.
 */
export function startMaintenanceLoop({ maintenance, log }: Options) {
  const stopping = new AbortController()
  const { signal } = stopping
  let running: Promise<void> | undefined
  let nextDueCheckAt = performance.now() + firstCheckDelayMs
  let pausedUntil = 0

  async function poll(): Promise<void> {
    const now = performance.now()
    if (now < pausedUntil) return
    const scope = now < nextDueCheckAt ? 'requested' : 'due'
    if (scope === 'due') nextDueCheckAt = now + dueIntervalMs
    do await maintenance.count()
    while (!signal.aborted && (await maintenance.runNext(signal, scope)))
  }

  const timer = setInterval(() => {
    running ??= poll()
      .catch((error) => {
        // An unreachable database is unlikely to return at once.
        pausedUntil = performance.now() + dueIntervalMs
        log.error({ err: error }, 'maintenance poll failed')
      })
      .finally(() => {
        running = undefined
      })
  }, pollIntervalMs)
  timer.unref()

  return {
    /** Aborts the running maintenance, and waits for its end. */
    async [Symbol.asyncDispose]() {
      clearInterval(timer)
      stopping.abort()
      await running
    },
  }
}
