import type { Clock } from '../base/clock.ts'
import { once } from '../base/once.ts'
import type { Database } from '../database/database.ts'
import type { ScheduleRow } from '../database/schema.ts'
import type { listEventsAfter } from '../events/event-store.ts'
import type { KeptObjects } from '../git/objects/object-reader.ts'
import { gitCommands } from '../git/process/commands.ts'
import { type Git, GitError } from '../git/process/git-process.ts'
import { zeroId } from '../git/refs/ref-name.ts'
import { type PushedUpdate, type RefUpdate, readDefaultBranch, readRefs } from '../git/refs/refs.ts'
import { pushPayload } from '../github-payloads/push-payload.ts'
import { readPayloadContext } from '../repositories/payload-context.ts'
import {
  findRepositorySummary,
  type RepositorySummary,
} from '../repositories/repository-summary-store.ts'
import type { Checker } from '../workflow-parser/checker.ts'
import { nextTime } from '../workflow-parser/cron.ts'
import { matchesPush } from '../workflow-parser/match-triggers.ts'
import type { Workflow } from '../workflow-parser/workflow.ts'
import { openCommit } from './commit-files.ts'
import type { RunSpec } from './create-run.ts'
import { createNameMask } from './name-mask.ts'
import { type PlannedRun, toStartFields } from './planned-runs.ts'
import { describeFaults, readSources } from './workflow-sources.ts'

export type TriggerEvent = Awaited<ReturnType<typeof listEventsAfter>>[number]

/** The effects of an event; `schedules` replace those of the repository. */
export type Reaction = {
  planned: PlannedRun[]
  schedules?: { repositoryId: string; rows: ScheduleRow[] }
}

type Dependencies = {
  db: Database
  git: Git
  checker: Checker
  directoryOf: (repositoryId: string) => Promise<string>
  /** Opens the secrets of a repository. */
  openSecrets: (repositoryId: string) => Promise<Record<string, string>>
  baseUrl: () => string
  clock: Clock
}

type Paths = string[] | 'unknown'

const changesMaxBytes = 4 * 1024 * 1024
// A small tree can contain itself many times.
const changesLimits = { memoryMaxBytes: 512 * 1024 * 1024, fileMaxBytes: 2 ** 40 }
// As on GitHub.
const skipPattern = /\[(skip ci|ci skip|no ci|skip actions|actions skip)\]/i

/** Plans the effects of pushes and of changes of the default branch on runs and schedules. */
export function createEventPlanner(dependencies: Dependencies) {
  const { db, git, checker, directoryOf, openSecrets, baseUrl, clock } = dependencies

  async function planPush(
    { repositoryId, data, actorId, actorUsername }: TriggerEvent,
    objects: KeptObjects,
  ): Promise<Reaction> {
    const update: PushedUpdate = JSON.parse(data)
    const isWanted = /^refs\/(heads|tags)\//.test(update.ref) && update.after !== zeroId
    const repository =
      repositoryId === null ? undefined : await findRepositorySummary(db, repositoryId)
    if (!isWanted || !repository) return { planned: [] }
    const directory = await directoryOf(repository.id)
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
      const mask = await createNameMask(openSecrets, repository.id, sources)
      planned.push({ start: { ...fields, event: 'push', payload, sources, mask } })
    }
    return isDefault
      ? { planned, schedules: { repositoryId: repository.id, rows: schedules } }
      : { planned }
  }

  /** Reads the schedules of a repository again when its default branch has changed: they come from there. */
  async function planSchedules(
    { repositoryId, actorId, actorUsername }: TriggerEvent,
    objects: KeptObjects,
  ): Promise<Reaction> {
    const repository =
      repositoryId === null ? undefined : await findRepositorySummary(db, repositoryId)
    if (!repository) return { planned: [] }
    const directory = await directoryOf(repository.id)
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

  return {
    plan: (event: TriggerEvent, objects: KeptObjects): Promise<Reaction> =>
      event.kind === 'push' ? planPush(event, objects) : planSchedules(event, objects),
  }
}
