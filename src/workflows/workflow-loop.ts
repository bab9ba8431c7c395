import type { Clock } from '../base/clock.ts'
import { dayMs } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import type { Notifier } from '../concurrency/notifier.ts'
import type { Database } from '../database/database.ts'
import type { Queue } from './run-queue.ts'
import { deleteOldRuns } from './run-store.ts'
import type { TriggerService } from './triggers.ts'

type Options = {
  db: Database
  triggers: TriggerService
  queue: Queue
  changes: Notifier
  keptDays: number
  clock: Clock
  log: Log
}

/** The name that is notified when pushes have been handled. */
export const reactedName = 'reacted'

const pollIntervalMs = 2000
const scheduleIntervalMs = 10_000
const pruneIntervalMs = 60 * 60 * 1000
const pruneBatchSize = 500

/** Starts the background loop: handles pushes, starts due schedules, takes back lost runs, and prunes old runs. */
export function startWorkflowLoop(options: Options) {
  const { db, triggers, queue, changes, keptDays, clock, log } = options
  let running: Promise<void> | undefined
  let isWakePending = false
  let isStopped = false
  let nextScheduleAt = 0
  let nextPruneAt = 0

  async function poll(): Promise<void> {
    await attempt('starting workflows for pushes failed', async () => {
      if (!(await triggers.react())) isWakePending = true
    })
    changes.notify(reactedName)
    const now = performance.now()
    if (now < nextScheduleAt || isStopped) return
    nextScheduleAt = now + scheduleIntervalMs
    await attempt('starting due schedules failed', triggers.startDue)
    await attempt('taking back lost runs failed', () => queue.sweep())
    if (now < nextPruneAt) return
    nextPruneAt = now + pruneIntervalMs
    await attempt('pruning old runs failed', async () => {
      const before = clock.now() - keptDays * dayMs
      while ((await deleteOldRuns(db, before, pruneBatchSize)) === pruneBatchSize && !isStopped) {
        // In batches, so that other writers do not wait for long.
      }
    })
  }

  async function attempt(what: string, work: () => Promise<void>): Promise<void> {
    await work().catch((error) => log.error({ err: error }, what))
  }

  function wake(): void {
    if (isStopped) return
    if (running !== undefined) {
      isWakePending = true
      return
    }
    running = poll().finally(() => {
      running = undefined
      if (isWakePending) wake()
    })
    isWakePending = false
  }

  const timer = setInterval(wake, pollIntervalMs)
  timer.unref()

  return {
    /** Polls at once. */
    wake,

    async [Symbol.asyncDispose]() {
      isStopped = true
      clearInterval(timer)
      await running
    },
  }
}
