import { isRunUsername } from '#access/names.ts'
import type { Checker } from '#actions/workflow-parser/checker.ts'
import { nextTime } from '#actions/workflow-parser/cron.ts'
import type { Workflow } from '#actions/workflow-parser/workflow.ts'
import type { Clock } from '#base/clock.ts'
import type { Database } from '#database/database.ts'
import type { ScheduleRow } from '#database/schema.ts'
import type { listEventsAfter } from '#events/event-store.ts'
import type { ObjectPool } from '#git/objects/object-pool.ts'
import type { Git } from '#git/process/git-process.ts'
import { zeroId } from '#git/refs/ref-name.ts'
import { type PushedUpdate, readDefaultBranch, readRefs } from '#git/refs/refs.ts'
import {
  findRepositorySummary,
  type RepositorySummary,
} from '#repositories/repository-summary-store.ts'
import { openCommit } from './commit-files.ts'
import type { RunSpec } from './create-run.ts'
import type { PlanPush } from './plan-push.ts'
import type { PlannedRun } from './planned-runs.ts'
import { findPushRunOptions } from './push-options-store.ts'
import { hasCaches } from './run-files/run-cache-store.ts'
import { readSources } from './workflow-sources.ts'

export type TriggerEvent = Awaited<ReturnType<typeof listEventsAfter>>[number]

/** The effects of an event; `schedules` replace those of the repository, or only say which of them stay. */
export type Reaction = {
  planned: PlannedRun[]
  schedules?: { repositoryId: string; rows: ScheduleRow[]; areOnlyRetained?: boolean }
  /** A branch or tag that was deleted, and whose caches go with it. */
  deletedRef?: { repositoryId: string; ref: string }
}

type Dependencies = {
  db: Database
  git: Git
  /** Readers of objects, which requests share. */
  pool: Pick<ObjectPool, 'of'>
  checker: Checker
  planPush: PlanPush
  directoryOf: (repositoryId: string) => Promise<string>
  clock: Clock
}

/** Plans the effects of pushes and of changes of the default branch on runs and schedules. */
export function createEventPlanner(dependencies: Dependencies) {
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

  return {
    plan: (event: TriggerEvent): Promise<Reaction> =>
      event.kind === 'push' ? reactToPush(event) : planSchedules(event),
  }
}
