import type { Log } from '../base/log.ts'
import type { Maintenance } from './maintenance.ts'

type Options = { maintenance: Maintenance; log: Log }

const firstLookMs = 5000
const lookEveryMs = 60_000
const askEveryMs = 2000

/**
 * Looks for repositories that are due, soon after the start and then each minute, and works on one after
 * the other. What is requested, as after an import or a large push, begins within seconds.
 */
export function startMaintenanceLoop({ maintenance, log }: Options) {
  const stopping = new AbortController()
  const { signal } = stopping
  let running: Promise<void> | undefined
  let readFingerprint = performance.now() + firstLookMs
  let askAt = 0

  async function look(): Promise<void> {
    const now = performance.now()
    if (now < askAt) return
    const which = now < readFingerprint ? 'requested' : 'due'
    if (which === 'due') readFingerprint = now + lookEveryMs
    do await maintenance.count()
    while (!signal.aborted && (await maintenance.runNext(signal, which)))
  }

  const asking = setInterval(() => {
    running ??= look()
      .catch((error) => {
        // A database that is out of reach will not be back at once.
        askAt = performance.now() + lookEveryMs
        log.error({ err: error }, 'maintenance could not look for work')
      })
      .finally(() => {
        running = undefined
      })
  }, askEveryMs)
  asking.unref()

  return {
    /** Ends what runs, and waits until it has ended. */
    async [Symbol.asyncDispose]() {
      clearInterval(asking)
      stopping.abort()
      await running
    },
  }
}
