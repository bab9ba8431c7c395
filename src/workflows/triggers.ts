import type { Checker } from '#actions/workflow-parser/checker.ts'
import type { Clock } from '#base/clock.ts'
import type { Notifier } from '#base/concurrency/notifier.ts'
import type { Log } from '#base/log.ts'
import type { Database } from '#database/database.ts'
import { hasUnread, lockCursor, readCursor, updateCursor } from '#events/cursors.ts'
import { listEventsAfter } from '#events/event-store.ts'
import type { ObjectPool } from '#git/objects/object-pool.ts'
import type { Git } from '#git/process/git-process.ts'
import { lockRepositorySummary } from '#repositories/repository-summary-store.ts'
import { createEventPlanner, type Reaction, type TriggerEvent } from './event-planner.ts'
import type { PlanPush } from './plan-push.ts'
import { type CreatedRuns, createPlanned, isTransient } from './planned-runs.ts'
import type { PublishRuns } from './run-events.ts'
import { deleteCaches } from './run-files/run-cache-store.ts'
import { replaceSchedules, retainSchedules } from './schedule-store.ts'
import { createScheduleTrigger } from './schedule-trigger.ts'

/** Triggers: they start runs for pushes in the event log and at the times of schedules. */
export type TriggerService = {
  /** Handles unread events, each exactly once, for a limited time. Returns whether all were handled. */
  react: () => Promise<boolean>
  /** Starts due schedules. A schedule that was missed several times while no server ran is started once. */
  startDue: () => Promise<void>
}

type Dependencies = {
  db: Database
  publishRuns: PublishRuns
  git: Git
  /** Readers of objects, which requests share. */
  pool: Pick<ObjectPool, 'of'>
  checker: Checker
  planPush: PlanPush
  changes: Notifier
  directoryOf: (repositoryId: string) => Promise<string>
  /** Opens the secrets of a repository. */
  openSecrets: (repositoryId: string) => Promise<Record<string, string>>
  baseUrl: () => string
  clock: Clock
  log: Log
}

const maxTries = 3
const reactedKinds = new Set(['push', 'repository.default_branch'])
// A push of very many refs must not delay schedules and lost runs.
const reactTimeoutMs = 2000

export function createTriggers(dependencies: Dependencies): TriggerService {
  const { db, publishRuns, changes, clock, log } = dependencies
  const planner = createEventPlanner(dependencies)
  // The event that failed last, and how often it failed in a row.
  let failing = { seq: 0, tries: 0 }

  async function react(): Promise<boolean> {
    const deadline = performance.now() + reactTimeoutMs
    while (await hasUnread(db, 'workflows')) {
      const from = await readCursor(db, 'workflows')
      const events = await listEventsAfter(db, from)
      let done = from
      let seen = from
      for (const event of events) {
        const isReactedTo = reactedKinds.has(event.kind) && (await reactTo(event, done))
        seen = event.seq
        if (isReactedTo) done = seen
        if (performance.now() > deadline) break
      }
      // Events without effects advance the cursor together.
      if (seen > done) await record(done, seen, { planned: [] })
      if (performance.now() > deadline) return false
    }
    return true
  }

  // The cursor moves in the transaction that creates the runs, so an event creates them once, even with several servers.
  async function record(
    from: number,
    to: number,
    { planned, schedules, deletedRef }: Reaction,
  ): Promise<void> {
    const changed = await db.transaction().execute(async (tx) => {
      if ((await lockCursor(tx, 'workflows')) !== from) return []
      if (schedules && (await lockRepositorySummary(tx, schedules.repositoryId))) {
        const update = schedules.areOnlyRetained ? retainSchedules : replaceSchedules
        await update(tx, schedules.repositoryId, schedules.rows)
      }
      if (deletedRef) await deleteCaches(tx, deletedRef.repositoryId, { ref: deletedRef.ref })
      const created: CreatedRuns[] = []
      for (const one of planned) created.push(await createPlanned(tx, clock, one))
      await updateCursor(tx, 'workflows', to)
      await publishRuns(
        tx,
        clock.now(),
        created.flatMap(({ transitions }) => transitions),
      )
      return created.flatMap(({ changed }) => changed)
    })
    for (const name of changed) changes.notify(name)
  }

  // An event that keeps failing must not block the later ones. Returns whether the event was recorded.
  async function reactTo(event: TriggerEvent, from: number): Promise<boolean> {
    try {
      const reaction = await planner.plan(event)
      const { planned, schedules, deletedRef } = reaction
      if (planned.length === 0 && !schedules && !deletedRef) return false
      await record(from, event.seq, reaction)
    } catch (error) {
      failing = { seq: event.seq, tries: failing.seq === event.seq ? failing.tries + 1 : 1 }
      if (isTransient(error) || failing.tries < maxTries) throw error
      log.error({ err: error, seq: event.seq }, 'starting workflows for an event failed')
      // Recorded now, so that a failure of the next event does not repeat this one.
      await record(from, event.seq, { planned: [] })
    }
    return true
  }

  return { react, startDue: createScheduleTrigger(dependencies).startDue }
}
