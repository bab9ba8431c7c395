import { Problem } from '#base/problem.ts'
import type { Database } from '#database/database.ts'
import type { RunAttemptRow, RunJobRow, RunStepRow } from '#database/schema.ts'
import type { EventData } from '#events/events.ts'
import type { RunSummary } from '#events/github-payloads/reported-run.ts'
import { gitCommands } from '#git/process/commands.ts'
import type { Git } from '#git/process/git-process.ts'
import {
  listAnnotations,
  listAnnotationsOfCommit,
  toShownAnnotation,
} from '../run-annotation-store.ts'
import {
  listJobs,
  listNamedJobs,
  listSteps,
  measureSteps,
  type NamedJob,
  type OfAttempt,
} from '../run-job-store.ts'
import { listFailedWorkspaces } from '../run-shells/failed-workspace-store.ts'
import { findLastGreen, findRun, type ListedRun, listRunAttempts } from '../run-store.ts'
import { readOutputs } from './run-outputs.ts'

type Dependencies = { db: Database; git: Git }
type RepositoryPath = { name: string; path: string }

/** Characters of a step's output that are kept for lists. */
export const stepTailLength = 2000

// All outputs of a response together. Longer outputs are cut to their ends; `/logs` has the rest.
const outputsMaxLength = 8 * 1024 * 1024
const summariesMaxLength = 8 * 1024 * 1024
const summaryMaxLength = 256 * 1024
// All runs of a list together.
const maxListedSteps = 10_000
const listedInputsMaxLength = 8 * 1024 * 1024
// Outputs in a webhook payload.
const eventOutputsMaxLength = 256 * 1024
const maxFailureLines = 50
const maxCommits = 50
/** Limits for the annotations of one commit. */
const annotationLimits = { runs: 20, annotations: 1000 }

/** Creates the views of runs in the API and in webhook payloads. */
export function createRunViews({ db, git }: Dependencies) {
  async function listedSteps(of: OfAttempt[], total: number) {
    return listSteps(db, of, { tailLength: tailLengthFor(total), summaryLength: 0 })
  }

  async function wholeSteps(of: OfAttempt) {
    const [{ steps = 0, summaries = 0 } = {}] = await measureSteps(db, [of])
    const isShort = Number(summaries) <= summariesMaxLength
    const summaryLength = isShort
      ? summaryMaxLength
      : Math.floor(summariesMaxLength / Number(steps))
    return listSteps(db, [of], { tailLength: tailLengthFor(Number(steps)), summaryLength })
  }

  async function failureOf(
    run: ListedRun,
    repository: RepositoryPath,
    { jobs, rows, steps, annotations, workspaces }: FailureParts,
  ) {
    if (!isFailed(run)) return null
    // A job that fails outside its steps has no failed step, but a fault.
    const job = jobs.find((one) => isFailed(one) && one.tolerated === 0)
    const row = rows.find((step) => isFailed(step) && step.job === job?.job)
    const failed = steps.find(({ number }) => number === row?.step)
    const green = await findLastGreen(db, run)
    return {
      workflow: job?.workflow ?? null,
      job: job?.name ?? null,
      step: failed?.name ?? null,
      exitCode: failed?.exitCode ?? null,
      reason: failed?.fault || job?.fault || run.fault || null,
      lastLines: lastLinesOf(failed?.output ?? ''),
      annotations: annotations.filter(
        ({ step, level }) => level === 'error' && step === failed?.number,
      ),
      workspaces,
      lastGreenRun: green
        ? {
            id: green.id,
            number: green.number,
            commit: green.commitId,
            completedAt: green.completedAt,
          }
        : null,
      commitsSince: green
        ? await commitsBetween(repository.path, green.commitId, run.commitId)
        : [],
    }
  }

  /** The kept workspaces, in which shells can be opened. */
  async function workspacesOf(run: ListedRun): Promise<KeptWorkspace[]> {
    const { completedAt } = run
    if (completedAt === null) return []
    const rows = await listFailedWorkspaces(db, attemptOf(run))
    return rows.flatMap(({ job, keptMs, removedAt }) =>
      removedAt === null ? [{ job, keptUntil: completedAt + keptMs }] : [],
    )
  }

  // Empty when one of the commits no longer exists.
  async function commitsBetween(directory: string, since: string, until: string) {
    const command = gitCommands.listCommits(directory, String(maxCommits), since, until)
    const text = await git.run(command).catch(() => '')
    return text
      .split('\0')
      .filter((one) => one !== '')
      .map((one) => {
        const [id = '', author = '', message = ''] = one.split('\n')
        return { id, author, message }
      })
  }

  return {
    /** Counts how many of the runs fit into one response; at least one. */
    async countFitting(runs: ListedRun[]): Promise<number> {
      const counted = await measureSteps(db, runs.map(attemptOf))
      const stepsOf = new Map(counted.map(({ runId, steps }) => [runId, Number(steps)]))
      let [steps, inputs] = [0, 0]
      const tooMany = runs.findIndex((run) => {
        steps += stepsOf.get(run.id) ?? 0
        inputs += run.inputs.length
        return steps > maxListedSteps || inputs > listedInputsMaxLength
      })
      return tooMany === -1 ? runs.length : Math.max(1, tooMany)
    },

    /** Describes runs for a list, with only the end of each step's output. */
    async list(runs: ListedRun[], repository: RepositoryPath) {
      const of = runs.map(attemptOf)
      const counted = await measureSteps(db, of)
      const total = counted.reduce((sum, one) => sum + Number(one.steps), 0)
      const [named, steps] = [await listNamedJobs(db, of), await listedSteps(of, total)]
      const jobsOf = Map.groupBy(named, ({ runId }) => runId)
      const stepsOf = Map.groupBy(steps, ({ runId }) => runId)
      return runs.map((run) => {
        const [jobs, some] = [jobsOf.get(run.id) ?? [], stepsOf.get(run.id) ?? []]
        return toRun(run, repository, toSteps(run, jobs, some, undefined))
      })
    },

    /** Describes a run in the state at the time of an event. */
    async atEvent({ repositoryId, repositoryName, actor, data }: RunAtEvent): Promise<RunSummary> {
      const { action: status, runId: id, attempt, commit: commitId } = data
      const row = await findRun(db, repositoryId, id)
      const { inputs = '{}', isRestricted = 0, needsApproval = 0 } = row ?? {}
      const run = {
        ...data,
        ...{ id, status, commitId },
        ...{ actorUsername: actor, inputs, isRestricted, needsApproval },
        files: JSON.stringify(data.files),
        labels: JSON.stringify(data.labels),
      }
      const of = [{ runId: id, attempt }]
      // The steps in the database may be newer than the event.
      if (status !== 'completed') return toRun(run, { name: repositoryName }, [])
      const [{ steps = 1 } = {}] = await measureSteps(db, of)
      const limit = Math.floor(eventOutputsMaxLength / Number(steps))
      const tailLength = Math.min(stepTailLength, limit)
      const [jobs, rows] = [
        await listNamedJobs(db, of),
        await listSteps(db, of, { tailLength, summaryLength: 0 }),
      ]
      return toRun(run, { name: repositoryName }, toSteps(run, jobs, rows, undefined))
    },

    /** Lists the annotations of the newest runs of a commit. */
    async annotationsOf(repositoryId: string, commitId: string) {
      const of = { repositoryId, commitId }
      const rows = await listAnnotationsOfCommit(db, of, annotationLimits)
      return rows.map(({ runNumber: number, runName: name, ...row }) => ({
        ...toShownAnnotation(row),
        run: { id: row.runId, number, name },
      }))
    },

    /** Describes a single run, with the whole output of its steps. */
    async one(latest: ListedRun, repository: RepositoryPath, attempt = latest.attempt) {
      const [attempts, logBytes] = [await listRunAttempts(db, latest.id), Number(latest.logBytes)]
      const isLatest = attempt === latest.attempt
      const run = isLatest ? latest : toFormer(latest, attempts, attempt)
      const of = attemptOf(run)
      const [jobs, rows, annotationRows, outputs] = await Promise.all([
        listJobs(db, of),
        wholeSteps(of),
        listAnnotations(db, of),
        readOutputs(db, of, {
          maxLength: outputsMaxLength,
          logBytes: isLatest ? logBytes : Number.POSITIVE_INFINITY,
        }),
      ])
      const steps = toSteps(run, jobs, rows, outputs)
      const annotations = annotationRows.map(toShownAnnotation)
      return {
        ...toRun(run, repository, steps),
        jobs: inOrder(run, jobs).map(toJob),
        attempts: attempts.map(toAttempt),
        annotations,
        logBytes: isLatest ? logBytes : null,
        failure: await failureOf(run, repository, {
          jobs: inOrder(run, jobs),
          rows,
          steps,
          annotations,
          workspaces: isLatest ? await workspacesOf(run) : [],
        }),
      }
    },
  }
}

export type RunAtEvent = {
  repositoryId: string
  repositoryName: string
  actor: string
  data: EventData['workflow']
}

/** A run as it was at the end of an earlier attempt. Throws `run_not_found`. */
function toFormer(latest: ListedRun, attempts: RunAttemptRow[], attempt: number): ListedRun {
  const row = attempts.find((one) => one.attempt === attempt)
  if (!row) throw new Problem('run_not_found', `The run has no attempt ${attempt}.`)
  const { logBytes: _, ...state } = row
  return { ...latest, ...state, status: 'completed' }
}

/** The workspace of a failed job; `keptUntil` is when it is removed, unless a shell runs in it. */
type KeptWorkspace = { job: string; keptUntil: number }

type FailureParts = {
  jobs: RunJobRow[]
  rows: RunStepRow[]
  steps: StepSummary[]
  annotations: ShownAnnotation[]
  workspaces: KeptWorkspace[]
}

function isFailed({ conclusion }: Pick<RunJobRow, 'conclusion'>): boolean {
  return conclusion === 'failure' || conclusion === 'timed_out'
}

function attemptOf({ id, attempt }: ListedRun): OfAttempt {
  return { runId: id, attempt }
}

function tailLengthFor(steps: number): number {
  return Math.min(stepTailLength, Math.floor(outputsMaxLength / Math.max(1, steps)))
}

function lastLinesOf(output: string): string[] {
  return output === '' ? [] : output.replace(/\n$/, '').split('\n').slice(-maxFailureLines)
}

type ShownAnnotation = ReturnType<typeof toShownAnnotation>
type StepSummary = ReturnType<typeof toStep>

/** The part of a run for principals who may trigger runs, but perhaps not read them. */
export function toState({ id, number, status, conclusion, attempt, actorUsername }: ListedRun) {
  return { id, number, status, conclusion, attempt, actor: actorUsername }
}

function toRun(run: RunFields, repository: Pick<RepositoryPath, 'name'>, steps: StepSummary[]) {
  const { id, number, name, branch, ref, event, status, conclusion, attempt, isolation } = run
  const { createdAt, queuedAt, startedAt, completedAt, isRestricted } = run
  const duration = completedAt === null ? 0 : completedAt - (startedAt ?? completedAt)
  return {
    id,
    repoName: repository.name,
    number,
    name,
    branch,
    ref,
    commit: run.commitId,
    event,
    actor: run.actorUsername,
    files: JSON.parse(run.files) as string[],
    labels: JSON.parse(run.labels) as string[],
    restricted: isRestricted === 1,
    needsApproval: run.needsApproval === 1 && status === 'queued',
    inputs: JSON.parse(run.inputs) as Record<string, string | number | boolean>,
    status,
    conclusion,
    attempt,
    createdAt,
    queuedAt,
    startedAt,
    completedAt,
    isolation: isolation === '' ? null : isolation,
    fault: run.fault === '' ? null : run.fault,
    result: status === 'completed' ? { success: conclusion === 'success', duration, steps } : null,
    steps: status === 'completed' ? null : steps,
  }
}

/** From a row or from an event. */
type RunFields = Pick<
  ListedRun,
  | 'id'
  | 'number'
  | 'name'
  | 'branch'
  | 'ref'
  | 'commitId'
  | 'event'
  | 'actorUsername'
  | 'files'
  | 'labels'
  | 'inputs'
  | 'isRestricted'
  | 'needsApproval'
  | 'status'
  | 'conclusion'
  | 'attempt'
  | 'createdAt'
  | 'queuedAt'
  | 'startedAt'
  | 'completedAt'
  | 'isolation'
  | 'fault'
>

// Sorts by the order of the files, then by job number.
function inOrder<Job extends NamedJob>(run: Pick<ListedRun, 'files'>, jobs: Job[]): Job[] {
  const files: string[] = JSON.parse(run.files)
  return jobs.toSorted((a, b) => files.indexOf(a.file) - files.indexOf(b.file) || a.job - b.job)
}

function toSteps(
  run: Pick<ListedRun, 'files'>,
  jobs: NamedJob[],
  steps: RunStepRow[],
  outputs: Map<number, string> | undefined,
) {
  const byJob = Map.groupBy(steps, ({ job }) => job)
  return inOrder(run, jobs).flatMap((job) =>
    (byJob.get(job.job) ?? []).map((step) => toStep(step, job, outputs?.get(step.step))),
  )
}

function toStep(step: RunStepRow, job: NamedJob, output: string | undefined) {
  const { name, status, conclusion, exitCode, fault, summary, startedAt, completedAt } = step
  const hasEnded = startedAt !== null && completedAt !== null
  return {
    number: step.step,
    name,
    workflow: job.workflow,
    file: job.file,
    job: job.name,
    status,
    conclusion,
    success: conclusion === 'success' || conclusion === 'skipped',
    exitCode,
    output: output ?? step.tail,
    fault: fault === '' ? null : fault,
    summary: summary === '' ? null : summary,
    startedAt,
    completedAt,
    duration: hasEnded ? completedAt - startedAt : 0,
  }
}

function toJob(job: RunJobRow) {
  const { jobId: id, name, workflow, file, status, conclusion, fault, startedAt, completedAt } = job
  const matrix = job.matrix === '' ? null : parseMatrix(job.matrix)
  const shown = fault === '' ? null : fault
  return {
    id,
    name,
    workflow,
    file,
    matrix,
    status,
    conclusion,
    fault: shown,
    startedAt,
    completedAt,
  }
}

// Masking may have broken the JSON.
function parseMatrix(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? { ...value } : null
  } catch {
    return null
  }
}

function toAttempt(row: RunAttemptRow) {
  const { attempt, actorUsername: actor, conclusion, startedAt, completedAt } = row
  return { attempt, actor, conclusion, startedAt, completedAt }
}
