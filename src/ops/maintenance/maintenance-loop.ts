import { createPoller, type Poller } from '#base/concurrency/poller.ts'
import type { Log } from '#base/log.ts'
import type { Maintenance } from './maintenance.ts'

type Options = { maintenance: Maintenance; log: Log }

const firstCheckDelayMs = 5000
const dueIntervalMs = 60_000
const pollIntervalMs = 2000

/**
 * Maintains due repositories one at a time: checks soon after the start, and then every minute. Requested maintenance,
 * as after an import or a large push, starts within seconds.
 * Disposal aborts the running maintenance.
 */
export function startMaintenanceLoop({ maintenance, log }: Options): Poller {
  let nextDueCheckAt = performance.now() + firstCheckDelayMs
  let pausedUntil = 0

  async function run(signal: AbortSignal): Promise<void> {
    const now = performance.now()
    if (now < pausedUntil) return
    const scope = now < nextDueCheckAt ? 'requested' : 'due'
    if (scope === 'due') nextDueCheckAt = now + dueIntervalMs
    do await maintenance.count()
    while (!signal.aborted && (await maintenance.runNext(signal, scope)))
    while (!signal.aborted && (await maintenance.indexNext(signal))) {}
    if (scope === 'requested') return
    while (!signal.aborted && (await maintenance.countNextLfs(signal))) {}
    while (!signal.aborted && (await maintenance.cleanUpNextLfs(signal))) {}
  }

  return createPoller({
    intervalMs: pollIntervalMs,
    run,
    onError(error) {
      // An unreachable database is unlikely to return at once.
      pausedUntil = performance.now() + dueIntervalMs
      log.error({ err: error }, 'maintenance poll failed')
    },
  })
}
