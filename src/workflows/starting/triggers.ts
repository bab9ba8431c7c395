import { isRunUsername } from '#access/names.ts'
import { nextTime } from '#actions/workflow-parser/reading/cron.ts'
import type { Workflow } from '#actions/workflow-parser/workflow.ts'
import type { ScheduleRow } from '#database/schema.ts'
import { hasUnread, lockCursor, readCursor, updateCursor } from '#events/cursors.ts'
import { listEventsAfter } from '#events/event-store.ts'
import type { ObjectPool } from '#git/objects/object-pool.ts'
import { zeroId } from '#git/refs/ref-name.ts'
import { type PushedUpdate, readDefaultBranch, readRefs } from '#git/refs/refs.ts'
import {
  findRepositorySummary,
  lockRepositorySummary,
  type RepositorySummary,
} from '#repositories/repository-summary-store.ts'
import { openCommit } from '../commits/commit-files.ts'
import { readSources } from '../commits/workflow-sources.ts'
import { deleteCaches, hasCaches } from '../run-files/run-cache-store.ts'
import { findPushRunOptions } from '../run-store.ts'
import { replaceSchedules, retainSchedules } from '../schedule-store.ts'
import type { RunSpec } from './create-run.ts'
import type { EndedVersions } from './enqueue-run.ts'
import type { PlanPush } from './plan-push.ts'
import { changeKinds, createPlanVersion } from './plan-version.ts'
import { isTransient, type PlannedRun } from './planned-runs.ts'
import { createScheduleTrigger, type ScheduleDependencies } from './schedule-trigger.ts'

/** Triggers: they start runs for pushes and versions of changes in the event log and at the times of schedules. */
export type TriggerService = {
  /** Handles unread events, each exactly once, for a limited time. Returns whether all were handled. */
  react: () => Promise<boolean>
  /** Starts due schedules. A schedule that was missed several times while no server ran is started once. */
  startDue: () => Promise<void>
}

type TriggerDependencies = ScheduleDependencies &
  Parameters<typeof createPlanVersion>[0] & {
    /** Readers of objects, which requests share. */
    pool: Pick<ObjectPool, 'of'>
    planPush: PlanPush
  }

const maxTries = 3
/** The kinds of events that start or end runs, or change schedules. */
export const reactedKinds: readonly string[] = ['push', 'repository.default_branch', ...changeKinds]
// A push of very many refs must not delay schedules and lost runs.
const reactTimeoutMs = 2000

export function createTriggers(dependencies: TriggerDependencies): TriggerService {
  const { db, queueRuns, log } = dependencies
  const plan = createEventPlanner(dependencies)
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
        const isReactedTo = reactedKinds.includes(event.kind) && (await reactTo(event, done))
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
    { planned, schedules, deletedRef, ended }: Reaction,
  ): Promise<void> {
    const created = await db.transaction().execute(async (tx) => {
      if ((await lockCursor(tx, 'workflows')) !== from) return undefined
      if (schedules && (await lockRepositorySummary(tx, schedules.repositoryId))) {
        const update = schedules.areOnlyRetained ? retainSchedules : replaceSchedules
        await update(tx, schedules.repositoryId, schedules.rows)
      }
      if (deletedRef) await deleteCaches(tx, deletedRef.repositoryId, { ref: deletedRef.ref })
      await updateCursor(tx, 'workflows', to)
      return queueRuns(tx, planned, ended)
    })
    created?.notify()
  }

  // An event that keeps failing must not block the later ones. Returns whether the event was recorded.
  async function reactTo(event: TriggerEvent, from: number): Promise<boolean> {
    try {
      const reaction = await plan(event)
      const { planned, schedules, deletedRef, ended } = reaction
      if (planned.length === 0 && !schedules && !deletedRef && !ended) return false
      await record(from, event.seq, reaction)
    } catch (error) {
      // Its repository was deleted meanwhile, so there is nothing to start.
      const { repositoryId } = event
      if (repositoryId !== null && !(await findRepositorySummary(db, repositoryId))) return false
      failing = { seq: event.seq, tries: failing.seq === event.seq ? failing.tries + 1 : 1 }
      if (isTransient(error) || failing.tries < maxTries) throw error
      log.error({ err: error, seq: event.seq }, 'starting workflows for an event failed')
      // Recorded now, so that a failure of the next event does not repeat this one.
      await record(from, event.seq, { planned: [] })
    }
    return true
  }

  return { react, startDue: createScheduleTrigger(dependencies) }
}

type TriggerEvent = Awaited<ReturnType<typeof listEventsAfter>>[number]

/** The effects of an event; `schedules` replace those of the repository, or only say which of them stay. */
type Reaction = {
  planned: PlannedRun[]
  schedules?: { repositoryId: string; rows: ScheduleRow[]; areOnlyRetained?: boolean }
  /** A branch or tag that was deleted, and whose caches go with it. */
  deletedRef?: { repositoryId: string; ref: string }
  ended?: EndedVersions
}

/** Plans the effects of pushes, of versions of changes, and of another default branch on runs and schedules. */
function createEventPlanner(dependencies: TriggerDependencies) {
  const { db, git, pool, checker, planPush, directoryOf, clock } = dependencies

  async function reactToPush({
    repositoryId,
    data,
    actorId,
    actorUsername,
  }: TriggerEvent): Promise<Reaction> {
    const update: PushedUpdate & { pushId?: string } = JSON.parse(data)
    const repository =
      repositoryId === null ? undefined : await findRepositorySummary(db, repositoryId)
    if (!/^refs\/(heads|tags)\//.test(update.ref) || !repository) return { planned: [] }
    if (update.after === zeroId) {
      const deletedRef = { repositoryId: repository.id, ref: update.ref }
      return (await hasCaches(db, repository.id, update.ref))
        ? { planned: [], deletedRef }
        : { planned: [] }
    }
    const directory = await directoryOf(repository.id)
    const actor = { id: actorId, username: actorUsername }
    const plan = await planPush({
      repository,
      directory,
      git,
      objects: pool.of(directory),
      update,
      actor,
      options: await findPushRunOptions(db, update.pushId),
    })
    if (!plan) return { planned: [] }
    const { planned, workflows, isDefault } = plan
    if (!isDefault) return { planned }
    const rows = workflows.flatMap((workflow) => toSchedules(repository, workflow, actor))
    // A schedule that a run adds would start the next run without a user.
    const areOnlyRetained = isRunUsername(actor.username)
    return { planned, schedules: { repositoryId: repository.id, rows, areOnlyRetained } }
  }

  /** Reads the schedules of a repository again when its default branch has changed: they come from there. */
  async function planSchedules({
    repositoryId,
    actorId,
    actorUsername,
  }: TriggerEvent): Promise<Reaction> {
    const repository =
      repositoryId === null ? undefined : await findRepositorySummary(db, repositoryId)
    if (!repository) return { planned: [] }
    const directory = await directoryOf(repository.id)
    const ref = `refs/heads/${await readDefaultBranch(directory)}`
    const tip = (await readRefs(directory, [ref])).get(ref) ?? zeroId
    const schedules = { repositoryId: repository.id, rows: [] as ScheduleRow[] }
    if (tip === zeroId) return { planned: [], schedules }
    const commit = await openCommit(pool.of(directory), tip)
    for (const path of commit.commit ? await commit.listWorkflows() : []) {
      const { workflows, faults } = await readSources(checker, commit, [path])
      const [workflow] = workflows
      const actor = { id: actorId, username: actorUsername }
      if (faults.length === 0 && workflow)
        schedules.rows.push(...toSchedules(repository, workflow, actor))
    }
    return { planned: [], schedules }
  }

  function toSchedules(
    { id: repositoryId }: RepositorySummary,
    { path: file, on }: Workflow,
    actor: RunSpec['actor'],
  ): ScheduleRow[] {
    const rows = on.schedule.map(({ cron, timezone }) => ({
      repositoryId,
      file,
      cron,
      timezone: timezone ?? '',
      actorId: actor.id,
      actorUsername: actor.username,
      nextAt: nextTime(cron, timezone, clock.now()),
    }))
    return [...new Map(rows.map((row) => [`${row.cron} ${row.timezone}`, row])).values()]
  }

  const planVersion = createPlanVersion(dependencies)

  return async (event: TriggerEvent): Promise<Reaction> => {
    const { kind, repositoryId } = event
    if (kind === 'push') return reactToPush(event)
    if (kind === 'repository.default_branch') return planSchedules(event)
    if (repositoryId === null) return { planned: [] }
    const actor = { id: event.actorId, username: event.actorUsername }
    return planVersion({ kind, repositoryId, actor, data: JSON.parse(event.data) })
  }
}
