import { type Clock, dayMs } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import { once } from '../base/once.ts'
import { Problem, type ProblemCode, toProblem } from '../base/problem.ts'
import type { Notifier } from '../concurrency/notifier.ts'
import type { Database } from '../database/database.ts'
import type { Db, ScheduleRow } from '../database/schema.ts'
import { hasUnread, lockCursor, readCursor, updateCursor } from '../events/cursors.ts'
import { listEventsAfter } from '../events/event-store.ts'
import { type KeptObjects, keepObjects, openObjects } from '../git/objects/object-reader.ts'
import { gitCommands } from '../git/process/commands.ts'
import { type Git, GitError } from '../git/process/git-process.ts'
import { zeroId } from '../git/refs/ref-name.ts'
import { type PushedUpdate, type RefUpdate, readDefaultBranch, readRefs } from '../git/refs/refs.ts'
import { pushPayload } from '../github-payloads/push-payload.ts'
import { schedulePayload } from '../github-payloads/started-payloads.ts'
import { readPayloadContext } from '../repositories/payload-context.ts'
import {
  findRepositorySummary,
  lockRepositorySummary,
  type RepositorySummary,
} from '../repositories/repository-summary-store.ts'
import type { Checker } from '../workflow-parser/checker.ts'
import { nextTime } from '../workflow-parser/cron.ts'
import { matchesPush } from '../workflow-parser/match-triggers.ts'
import type { Workflow } from '../workflow-parser/workflow.ts'
import { type CommitFiles, openCommit } from './commit-files.ts'
import { createFailedRunRow, type RunSpec } from './create-run.ts'
import { enqueueRun } from './enqueue-run.ts'
import { createNameMask } from './name-mask.ts'
import type { PublishRuns, RunTransition } from './run-events.ts'
import { addLog } from './run-logs.ts'
import { insertRun, takeNumber } from './run-store.ts'
import { listDue, replaceSchedules, reschedule } from './schedule-store.ts'
import { describeFaults, readSources } from './workflow-sources.ts'

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
  checker: Checker
  changes: Notifier
  pathOf: (repositoryId: string) => string
  /** Opens the secrets of a repository. */
  openSecrets: (repositoryId: string) => Promise<Record<string, string>>
  baseUrl: () => string
  clock: Clock
  log: Log
}

type LoggedEvent = Awaited<ReturnType<typeof listEventsAfter>>[number]

/** A run to create: one to queue, or one that failed before it started. */
type PlannedRun =
  | { start: RunSpec }
  | { failed: Omit<RunSpec, 'sources' | 'mask'> & { files: string[]; fault: string } }

/** The names to notify in this process, and the events to publish at the end of the transaction. */
type CreatedRuns = { changed: string[]; transitions: RunTransition[] }

/** The effects of an event; `schedules` replace those of the repository. */
type Reaction = { planned: PlannedRun[]; schedules?: { repositoryId: string; rows: ScheduleRow[] } }

const maxDueSchedules = 20
const changesMaxBytes = 4 * 1024 * 1024
// A small tree can contain itself many times.
const changesLimits = { memoryMaxBytes: 512 * 1024 * 1024, fileMaxBytes: 2 ** 40 }
const maxTries = 3
const reactedKinds = new Set(['push', 'repository.default_branch'])
// A push of very many refs must not delay schedules and lost runs.
const reactTimeoutMs = 2000
const transientCodes = new Set<ProblemCode>([
  'checks_busy',
  'git_busy',
  'database_unavailable',
  'storage_full',
])
// As on GitHub.
const skipPattern = /\[(skip ci|ci skip|no ci|skip actions|actions skip)\]/i

export function createTriggers(dependencies: Dependencies): TriggerService {
  const { db, publishRuns, git, checker, changes, pathOf } = dependencies
  const { openSecrets, baseUrl, clock, log } = dependencies
  // The event that failed last, and how often it failed in a row.
  let failing = { seq: 0, tries: 0 }

  async function react(): Promise<boolean> {
    const deadline = performance.now() + reactTimeoutMs
    while (await hasUnread(db, 'workflows')) {
      const from = await readCursor(db, 'workflows')
      const events = await listEventsAfter(db, from)
      await using objects = keepObjects(git)
      let done = from
      let seen = from
      for (const event of events) {
        const isReactedTo = reactedKinds.has(event.kind) && (await reactTo(event, done, objects))
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
  async function record(from: number, to: number, { planned, schedules }: Reaction): Promise<void> {
    const changed = await db.transaction().execute(async (tx) => {
      if ((await lockCursor(tx, 'workflows')) !== from) return []
      if (schedules && (await lockRepositorySummary(tx, schedules.repositoryId)))
        await replaceSchedules(tx, schedules.repositoryId, schedules.rows)
      const created: CreatedRuns[] = []
      for (const one of planned) created.push(await createPlanned(tx, one))
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

  async function createPlanned(tx: Db, planned: PlannedRun): Promise<CreatedRuns> {
    const fields = 'start' in planned ? planned.start : planned.failed
    if (!(await lockRepositorySummary(tx, fields.repository.id)))
      return { changed: [], transitions: [] }
    if ('failed' in planned) return createFailedRun(tx, planned.failed)
    try {
      const { changed, transitions } = await enqueueRun(tx, planned.start, clock.now())
      return { changed: [...changed, 'queue'], transitions }
    } catch (error) {
      if (!(error instanceof Problem)) throw error
      const { sources, mask: _, ...start } = planned.start
      return createFailedRun(tx, {
        ...start,
        files: sources.files.map(({ path }) => path),
        fault: error.message,
      })
    }
  }

  async function createFailedRun(
    tx: Db,
    failed: Omit<RunSpec, 'sources' | 'mask'> & { files: string[]; fault: string },
  ): Promise<CreatedRuns> {
    const number = await takeNumber(tx, failed.repository.id)
    const run = await createFailedRunRow(failed, clock.now(), number)
    await insertRun(tx, run, [])
    const text = `✗ failure: ${run.fault}\n`
    await addLog(tx, { ...run, attempt: 1, logBytes: 0 }, [{ step: null, prefix: '', text }])
    return { changed: [], transitions: [{ action: 'completed', run: { ...run, attempt: 1 } }] }
  }

  // An event that keeps failing must not block the later ones. Returns whether the event was recorded.
  async function reactTo(event: LoggedEvent, from: number, objects: KeptObjects): Promise<boolean> {
    try {
      const reaction = await (event.kind === 'push' ? plan : planSchedules)(event, objects)
      if (reaction.planned.length === 0 && !reaction.schedules) return false
      await record(from, event.seq, reaction)
    } catch (error) {
      failing = { seq: event.seq, tries: failing.seq === event.seq ? failing.tries + 1 : 1 }
      if (isTransient(error) || failing.tries < maxTries) throw error
      // git may have stopped in the middle of an object.
      await objects[Symbol.asyncDispose]()
      log.error({ err: error, seq: event.seq }, 'starting workflows for an event failed')
      // Recorded now, so that a failure of the next event does not repeat this one.
      await record(from, event.seq, { planned: [] })
    }
    return true
  }

  async function plan(
    { repositoryId, data, actorId, actorUsername }: LoggedEvent,
    objects: KeptObjects,
  ): Promise<Reaction> {
    const update: PushedUpdate = JSON.parse(data)
    const isWanted = /^refs\/(heads|tags)\//.test(update.ref) && update.after !== zeroId
    const repository =
      repositoryId === null ? undefined : await findRepositorySummary(db, repositoryId)
    if (!isWanted || !repository) return { planned: [] }
    const directory = pathOf(repository.id)
    const actor = { id: actorId, username: actorUsername }
    const commit = await openCommit(await objects.of(directory), update.after)
    // A tag may point to something other than a commit.
    if (!commit.commit) return { planned: [] }
    const paths = await commit.listWorkflows()
    const fields = toStartFields(repository, update.ref, commit.commit.id, actor)
    const head = commit.commit
    const context = await readPayloadContext(repository, {
      directory,
      sender: actorUsername,
      baseUrl: baseUrl(),
    })
    const payload = pushPayload(update, { commits: [head], head }, context)
    const isDefault = update.ref === `refs/heads/${context.repository.defaultBranch}`
    const isSkipped = skipPattern.test(head.message)
    const changed = once(() => changedPaths(directory, update))
    const planned: PlannedRun[] = []
    const schedules: ScheduleRow[] = []
    for (const path of paths) {
      const sources = await readSources(checker, commit, [path])
      const [workflow] = sources.workflows
      if (sources.faults.length > 0 || !workflow) {
        const fault = describeFaults(sources.faults)
        if (!isSkipped)
          planned.push({ failed: { ...fields, event: 'push', payload, files: [path], fault } })
        continue
      }
      if (isDefault) schedules.push(...toSchedules(repository, workflow, actor))
      if (isSkipped || !(await isStarted(workflow, update, changed))) continue
      const mask = await createNameMask(openSecrets, repository.id, sources.workflows)
      planned.push({ start: { ...fields, event: 'push', payload, sources, mask } })
    }
    return isDefault
      ? { planned, schedules: { repositoryId: repository.id, rows: schedules } }
      : { planned }
  }

  /** Reads the schedules of a repository again when its default branch has changed: they come from there. */
  async function planSchedules(
    { repositoryId, actorId, actorUsername }: LoggedEvent,
    objects: KeptObjects,
  ): Promise<Reaction> {
    const repository =
      repositoryId === null ? undefined : await findRepositorySummary(db, repositoryId)
    if (!repository) return { planned: [] }
    const directory = pathOf(repository.id)
    const ref = `refs/heads/${await readDefaultBranch(directory)}`
    const tip = (await readRefs(directory, [ref])).get(ref) ?? zeroId
    const schedules = { repositoryId: repository.id, rows: [] as ScheduleRow[] }
    if (tip === zeroId) return { planned: [], schedules }
    const commit = await openCommit(await objects.of(directory), tip)
    for (const path of commit.commit ? await commit.listWorkflows() : []) {
      const { workflows, faults } = await readSources(checker, commit, [path])
      const [workflow] = workflows
      const actor = { id: actorId, username: actorUsername }
      if (faults.length === 0 && workflow)
        schedules.rows.push(...toSchedules(repository, workflow, actor))
    }
    return { planned: [], schedules }
  }

  async function isStarted(
    workflow: Workflow,
    { ref, before }: RefUpdate,
    changed: () => Promise<Paths>,
  ) {
    const { push } = workflow.on
    if (!push) return false
    const isNew = before === zeroId
    const needsPaths = (push.paths || push.pathsIgnore) && !isNew && ref.startsWith('refs/heads/')
    return matchesPush(push, { ref, isNew, changedPaths: needsPaths ? await changed() : 'unknown' })
  }

  // The previous commits may have been pruned. A push with too many changed files counts as one of all files.
  async function changedPaths(directory: string, { before, after }: RefUpdate): Promise<Paths> {
    const command = gitCommands.listChanges(directory, before, after)
    const text = await git
      .runUpTo(changesMaxBytes, command, { limits: changesLimits })
      .catch((error) => {
        if (error instanceof GitError) return undefined
        throw error
      })
    if (text === undefined) return 'unknown'
    return text.split('\0').filter((path) => path !== '')
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
    const changed = await db.transaction().execute(async (tx) => {
      if (!(await lockRepositorySummary(tx, schedule.repositoryId))) return []
      if (!(await reschedule(tx, schedule, next)) || !planned) return []
      const { changed, transitions } = await createPlanned(tx, planned)
      await publishRuns(tx, clock.now(), transitions)
      return changed
    })
    for (const name of changed) changes.notify(name)
  }

  async function planScheduled(schedule: ScheduleRow): Promise<PlannedRun | undefined> {
    const repository = await findRepositorySummary(db, schedule.repositoryId)
    if (!repository) return undefined
    const directory = pathOf(repository.id)
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
    const mask = await createNameMask(openSecrets, repository.id, sources.workflows)
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

  return { react, startDue }
}

type Paths = string[] | 'unknown'

/** Whether an error is expected to pass, so that the event is retried without limit. */
function isTransient(error: unknown): boolean {
  return transientCodes.has(toProblem(error).code)
}

function toStartFields(
  { id, name, ownerUsername: owner }: RepositorySummary,
  ref: string,
  commit: string,
  actor: RunSpec['actor'],
) {
  return { repository: { id, name, owner }, actor, ref, commit, inputs: {} }
}
