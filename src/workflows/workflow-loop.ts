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

/** What changes when pushes have been reacted to. */
export const reactedName = 'reacted'

const lookEveryMs = 2000
const dueEveryMs = 10_000
const forgetEveryMs = 60 * 60 * 1000
const forgottenAtOnce = 500

/** Does from time to time what nobody asks for: reacts to pushes, starts what is due, takes back lost runs, forgets old ones. */
export function startWorkflowLoop(options: Options) {
  const { db, triggers, queue, changes, keptDays, clock, log } = options
  let running: Promise<void> | undefined
  let isAskedAgain = false
  let isStopped = false
  let dueAt = 0
  let forgetAt = 0

  async function look(): Promise<void> {
    await attempt('pushes could not be looked at for workflows', async () => {
      if (!(await triggers.react())) isAskedAgain = true
    })
    changes.notify(reactedName)
    const now = performance.now()
    if (now < dueAt || isStopped) return
    dueAt = now + dueEveryMs
    await attempt('schedules could not be looked at', triggers.startDue)
    await attempt('lost runs could not be looked for', () => queue.sweep())
    if (now < forgetAt) return
    forgetAt = now + forgetEveryMs
    await attempt('old runs could not be forgotten', async () => {
      const before = clock.now() - keptDays * dayMs
      while ((await deleteOldRuns(db, before, forgottenAtOnce)) === forgottenAtOnce && !isStopped) {
        // In pieces, so that nobody waits for long.
      }
    })
  }

  async function attempt(what: string, work: () => Promise<void>): Promise<void> {
    await work().catch((error) => log.error({ err: error }, what))
  }

  function wake(): void {
    if (isStopped) return
    if (running !== undefined) {
      isAskedAgain = true
      return
    }
    running = look().finally(() => {
      running = undefined
      if (isAskedAgain) wake()
    })
    isAskedAgain = false
  }

  const looking = setInterval(wake, lookEveryMs)
  looking.unref()

  return {
    /** Looks at once: something has happened. */
    wake,

    async [Symbol.asyncDispose]() {
      isStopped = true
      clearInterval(looking)
      await running
    },
  }
}
