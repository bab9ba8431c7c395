import type { Checker } from '#actions/workflow-parser/checker.ts'
import { nextTime } from '#actions/workflow-parser/reading/cron.ts'
import { type Clock, dayMs } from '#base/clock.ts'
import type { Log } from '#base/log.ts'
import { Problem } from '#base/problem.ts'
import type { Database } from '#database/database.ts'
import type { ScheduleRow } from '#database/schema.ts'
import { schedulePayload } from '#events/github-payloads/started-payloads.ts'
import { openObjects } from '#git/objects/object-reader.ts'
import type { Git } from '#git/process/git-process.ts'
import { zeroId } from '#git/refs/ref-name.ts'
import { readDefaultBranch, readRefs } from '#git/refs/refs.ts'
import { readPayloadContext } from '#repositories/payload-context.ts'
import {
  findRepositorySummary,
  lockRepositorySummary,
} from '#repositories/repository-summary-store.ts'
import { type CommitFiles, openCommit } from '../commits/commit-files.ts'
import { describeFaults, readSources } from '../commits/workflow-sources.ts'
import { listDue, reschedule } from '../schedule-store.ts'
import {
  createNameMask,
  isTransient,
  type PlannedRun,
  type QueueRuns,
  toStartFields,
} from './planned-runs.ts'

export type ScheduleDependencies = {
  db: Database
  queueRuns: QueueRuns
  git: Git
  checker: Checker
  directoryOf: (repositoryId: string) => Promise<string>
  /** Opens the secrets of a repository. */
  openSecrets: (repositoryId: string) => Promise<Record<string, string>>
  baseUrl: () => string
  clock: Clock
  log: Log
}

const maxDueSchedules = 20

/** Returns a function that starts the runs whose time has come. */
export function createScheduleTrigger(dependencies: ScheduleDependencies) {
  const { db, queueRuns, git, checker, directoryOf } = dependencies
  const { openSecrets, baseUrl, clock, log } = dependencies

  async function startDue(): Promise<void> {
    for (const schedule of await listDue(db, clock.now(), maxDueSchedules)) {
      await startOne(schedule).catch(async (error) => {
        if (isTransient(error)) throw error
        // Postponed by a day, so that it does not block the others.
        log.error({ err: error, ...schedule }, 'starting a schedule failed')
        await reschedule(db, schedule, clock.now() + dayMs)
      })
    }
  }

  async function startOne(schedule: ScheduleRow): Promise<void> {
    const planned = await planScheduled(schedule)
    const next = nextTime(schedule.cron, schedule.timezone || undefined, clock.now())
    const created = await db.transaction().execute(async (tx) => {
      const repository = await lockRepositorySummary(tx, schedule.repositoryId)
      // Also while the repository is deleted: it may be restored.
      const isFirst = await reschedule(tx, schedule, next)
      if (!repository || !isFirst || !planned) return undefined
      return queueRuns(tx, [planned])
    })
    created?.notify()
  }

  async function planScheduled(schedule: ScheduleRow): Promise<PlannedRun | undefined> {
    const repository = await findRepositorySummary(db, schedule.repositoryId)
    if (!repository) return undefined
    const directory = await directoryOf(repository.id)
    const defaultBranch = await readDefaultBranch(directory)
    const ref = `refs/heads/${defaultBranch}`
    const tip = (await readRefs(directory, [ref])).get(ref) ?? zeroId
    if (tip === zeroId) return undefined
    const actor = { id: schedule.actorId, username: schedule.actorUsername }
    const fields = toStartFields(repository, ref, tip, actor)
    const context = await readPayloadContext(repository, {
      directory,
      sender: actor.username,
      baseUrl: baseUrl(),
    })
    const payload = schedulePayload(schedule.cron, context)
    await using objects = await openObjects(git, directory)
    const commit = await openCommit(objects, tip)
    const sources = await readSourcesOrFault(commit, schedule.file)
    if ('fault' in sources) {
      const { fault } = sources
      return { failed: { ...fields, event: 'schedule', payload, files: [schedule.file], fault } }
    }
    const mask = await createNameMask(openSecrets, repository.id, sources)
    return { start: { ...fields, event: 'schedule', payload, sources, mask } }
  }

  async function readSourcesOrFault(commit: CommitFiles, file: string) {
    try {
      const sources = await readSources(checker, commit, [file])
      return sources.faults.length > 0 ? { fault: describeFaults(sources.faults) } : sources
    } catch (error) {
      if (error instanceof Problem) return { fault: error.message }
      throw error
    }
  }

  return startDue
}
