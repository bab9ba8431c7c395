import { type Clock, dayMs } from '#base/clock.ts'
import type { Notifier } from '#base/concurrency/notifier.ts'
import { createPoller, type Poller } from '#base/concurrency/poller.ts'
import type { Log } from '#base/log.ts'
import type { Database } from '#database/database.ts'
import type { RunShells } from './run-shells/run-shells.ts'
import { deleteOldRuns } from './run-store.ts'
import type { Queue } from './runners/run-queue.ts'
import { reactedName } from './runs/runs.ts'
import type { AwaitedRuns } from './starting/awaited-runs.ts'
import type { TriggerService } from './starting/triggers.ts'

type Options = {
  db: Database
  triggers: TriggerService
  queue: Queue
  awaitedRuns: Pick<AwaitedRuns, 'sweep'>
  shells: Pick<RunShells, 'sweep'>
  changes: Notifier
  keptDays: number
  clock: Clock
  log: Log
}

const pollIntervalMs = 2000
const scheduleIntervalMs = 10_000
const pruneIntervalMs = 60 * 60 * 1000
const pruneBatchSize = 500

/** Starts the background loop: handles pushes, starts due schedules, takes back lost runs, and prunes old runs. */
export function startWorkflowLoop(options: Options): Poller {
  const { db, triggers, queue, awaitedRuns, shells, changes, keptDays, clock, log } = options
  let nextScheduleAt = 0
  let nextPruneAt = 0

  async function run(signal: AbortSignal): Promise<number> {
    let isUpToDate = true
    await attempt('starting workflows for pushes failed', async () => {
      isUpToDate = await triggers.react()
    })
    changes.notify(reactedName)
    if (!signal.aborted) await runScheduled(signal)
    return isUpToDate ? pollIntervalMs : 0
  }

  async function runScheduled(signal: AbortSignal): Promise<void> {
    const now = performance.now()
    if (now < nextScheduleAt) return
    nextScheduleAt = now + scheduleIntervalMs
    await attempt('starting due schedules failed', triggers.startDue)
    await attempt('cancelling runs of refused pushes failed', awaitedRuns.sweep)
    await attempt('taking back lost runs failed', () => queue.sweep())
    await attempt('ending lost shells failed', shells.sweep)
    if (now < nextPruneAt) return
    nextPruneAt = now + pruneIntervalMs
    await attempt('pruning old runs failed', async () => {
      const before = clock.now() - keptDays * dayMs
      while (
        (await deleteOldRuns(db, before, pruneBatchSize)) === pruneBatchSize &&
        !signal.aborted
      ) {
        // In batches, so that other writers do not wait for long.
      }
    })
  }

  async function attempt(what: string, work: () => Promise<void>): Promise<void> {
    await work().catch((error) => log.error({ err: error }, what))
  }

  return createPoller({
    intervalMs: pollIntervalMs,
    run,
    onError: (error) => log.error({ err: error }, 'workflow loop failed'),
  })
}
