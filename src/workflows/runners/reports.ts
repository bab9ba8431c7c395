import type { Reported } from '#actions/runner-api/runner-api.ts'
import { createLogRenderer } from '#actions/workflow-engine/output/render-log.ts'
import type { ReusedJob, RunEntry } from '#actions/workflow-engine/plan.ts'
import type { Clock } from '#base/clock.ts'
import type { Notifier } from '#base/concurrency/notifier.ts'
import type { FaultPoint } from '#base/fault-points.ts'
import { Problem } from '#base/problem.ts'
import type { Database } from '#database/database.ts'
import type { Db, RunRow } from '#database/schema.ts'
import { insertAnnotation, listAnnotations, toAnnotationRow } from '../run-annotation-store.ts'
import type { PublishRuns } from '../run-events.ts'
import {
  endJobsAndSteps,
  insertJob,
  insertStep,
  listJobs,
  listNamedJobs,
  listNamedSteps,
  listSteps,
  type OfAttempt,
  updateJob,
  updateStep,
} from '../run-job-store.ts'
import { type ListedRun, updateRun } from '../run-store.ts'
import { addLog, type Piece } from '../views/run-logs.ts'
import { readTail } from '../views/run-outputs.ts'
import { stepTailLength } from '../views/run-view.ts'
import type { Claimant } from './claim-run.ts'
import { leaseSeconds, type Queue, running } from './run-queue.ts'

/** Applies the report entries of runners, each exactly once. */
export type Reports = {
  /** Applies entries of a run; `first` is the number of the first one. Throws `run_not_found`. */
  take: (by: Claimant, report: { first: number; entries: RunEntry[] }) => Promise<Reported>
}

type Dependencies = {
  db: Database
  publishRuns: PublishRuns
  queue: Queue
  changes: Notifier
  clock: Clock
  faultPoint: FaultPoint
}

export function createReports(dependencies: Dependencies): Reports {
  const { db, publishRuns, queue, changes, clock, faultPoint } = dependencies
  async function applyFresh(tx: Db, run: ListedRun, entries: RunEntry[]): Promise<Reported> {
    const held = await updateRun(
      tx,
      { ...running(run), entries: run.entries },
      { entries: run.entries + entries.length, leaseUntil: clock.now() + leaseSeconds * 1000 },
    )
    if (!held) return { next: run.entries, cancel: run.cancelReason }
    await apply(tx, held, entries)
    return { next: held.entries, cancel: held.cancelReason }
  }

  async function apply(tx: Db, run: ListedRun, entries: RunEntry[]): Promise<void> {
    const attempt = { runId: run.id, attempt: run.attempt }
    let pieces: Piece[] = []
    const known = await readKnown(tx, attempt)
    // Output is written before the entry that follows it, so a step's output is complete when the step ends.
    let { logBytes } = run
    const flush = async () => {
      logBytes = await addLog(tx, { ...run, logBytes }, pieces)
      pieces = []
    }
    for (const [index, entry] of entries.entries()) {
      const step = entry.kind === 'output' ? entry.step : null
      known.check(entry)
      pieces.push({ step, ...known.render(entry) })
      if (entry.kind === 'output') continue
      if (entry.kind === 'annotation') {
        // The number of the entry in the report, which no other annotation of the attempt has.
        const number = run.entries - entries.length + index
        await insertAnnotation(tx, toAnnotationRow({ ...attempt, number }, entry))
        continue
      }
      if (entry.kind === 'step-ended' || entry.kind === 'run-ended') await flush()
      await applyOne(tx, run, entry)
    }
    await flush()
  }

  async function applyOne(
    tx: Db,
    run: ListedRun,
    entry: Exclude<RunEntry, { kind: 'output' | 'annotation' }>,
  ) {
    const of = { runId: run.id, attempt: run.attempt }
    switch (entry.kind) {
      case 'isolation': {
        await updateRun(tx, running(run), { isolation: `${entry.isolation}: ${entry.description}` })
        return
      }
      case 'job-planned': {
        const { job, file, workflow, id: jobId, name, matrix } = entry
        return insertJob(tx, {
          ...of,
          job,
          file,
          workflow,
          jobId,
          name,
          matrix,
          ...waiting,
          tolerated: 0,
          outputs: '{}',
        })
      }
      case 'job-started':
        return updateJob(tx, { ...of, job: entry.job }, { status: 'running', startedAt: entry.at })
      case 'job-ended': {
        const { job, at, conclusion, fault, outputs, isTolerated } = entry
        const end = { status: 'completed', conclusion, fault, completedAt: at } as const
        const tolerated = isTolerated ? 1 : 0
        await updateJob(tx, { ...of, job }, { ...end, tolerated, outputs: JSON.stringify(outputs) })
        return reuseSteps(tx, run, job)
      }
      case 'step-planned': {
        const { step, job, name } = entry
        const noOutput = { exitCode: null, summary: '', tail: '' }
        return insertStep(tx, { ...of, step, job, name, ...waiting, ...noOutput })
      }
      case 'step-started': {
        const { step, at, name } = entry
        const start = { status: 'running', startedAt: at } as const
        return updateStep(tx, { ...of, step }, name === undefined ? start : { ...start, name })
      }
      case 'step-ended': {
        const { step, at, conclusion, exitCode, fault, summary } = entry
        const tail = await readTail(tx, of, step, stepTailLength)
        const end = { status: 'completed', conclusion, exitCode, fault, completedAt: at } as const
        return updateStep(tx, { ...of, step }, { ...end, summary, tail })
      }
      case 'run-ended':
        return end(tx, run, entry)
    }
  }

  async function end(
    tx: Db,
    run: ListedRun,
    entry: RunEntry & { kind: 'run-ended' },
  ): Promise<void> {
    const { conclusion, fault } = entry
    await endJobsAndSteps(
      tx,
      { runId: run.id, attempt: run.attempt },
      { conclusion: 'cancelled', at: entry.at },
    )
    const ended = await updateRun(tx, running(run), {
      status: 'completed',
      conclusion,
      fault,
      completedAt: clock.now(),
      tokenHash: null,
    })
    if (ended) await publishRuns(tx, clock.now(), [{ action: 'completed', run: ended }])
  }

  return {
    async take(by, { first, entries }) {
      const run = await queue.held(by)
      // Entries after a gap are dropped, as are those applied before; `next` in the response requests the right ones.
      const fresh = first > run.entries ? [] : entries.slice(run.entries - first)
      const reported = await db.transaction().execute((tx) => applyFresh(tx, run, fresh))
      const has = (kind: RunEntry['kind']) => fresh.some((entry) => entry.kind === kind)
      const hasEnded = has('run-ended')
      if (has('step-started')) faultPoint('run.begun')
      if (has('step-ended') && !hasEnded) faultPoint('run.reported')
      if (hasEnded) faultPoint('run.ended')
      changes.notify(by.id)
      if (hasEnded) changes.notify('queue')
      return reported
    },
  }
}

const waiting = {
  status: 'queued',
  conclusion: null,
  fault: '',
  startedAt: null,
  completedAt: null,
} as const

// Loads the jobs and steps planned so far: entries may refer only to these, and log lines show their names.
async function readKnown(tx: Db, of: OfAttempt) {
  const render = createLogRenderer()
  const [jobs, steps] = [await listNamedJobs(tx, [of]), await listNamedSteps(tx, of)]
  for (const { job, jobId: id, file, workflow, name } of jobs)
    render({ kind: 'job-planned', job, id, file, workflow, name, matrix: '' })
  for (const { step, job, name } of steps) render({ kind: 'step-planned', step, job, name })
  const [jobNumbers, stepNumbers] = [
    new Set(jobs.map(({ job }) => job)),
    new Set(steps.map(({ step }) => step)),
  ]

  function check(entry: RunEntry): void {
    const isPlanned = entry.kind === 'job-planned' || entry.kind === 'step-planned'
    if (entry.kind === 'job-planned') take(jobNumbers, entry.job, 'job')
    if (entry.kind === 'step-planned') take(stepNumbers, entry.step, 'step')
    if ('job' in entry && !jobNumbers.has(entry.job)) throw unknownNumber('job', entry.job)
    const step = 'step' in entry && !isPlanned ? entry.step : null
    if (step !== null && !stepNumbers.has(step)) throw unknownNumber('step', step)
  }

  return { render, check }
}

function take(numbers: Set<number>, number: number, what: string): void {
  if (numbers.has(number))
    throw new Problem('invalid_request', `The ${what} ${number} was already planned.`)
  numbers.add(number)
}

function unknownNumber(what: string, number: number): Problem {
  return new Problem('invalid_request', `There is no ${what} ${number} in this run.`)
}

// Above all step numbers that a runner assigns.
const firstReusedNumber = 50_000
const whole = { tailLength: 1_000_000, summaryLength: 1_000_000 }

/**
 * Copies the steps and times of a job that is not run again from the previous attempt. Only the end of each output is
 * copied; the log of the previous attempt has all of it.
 */
async function reuseSteps(
  tx: Db,
  run: Pick<RunRow, 'id' | 'attempt' | 'kept'>,
  job: number,
): Promise<void> {
  const reused: ReusedJob[] = JSON.parse(run.kept)
  if (reused.length === 0) return
  const of = { runId: run.id, attempt: run.attempt }
  const current = (await listJobs(tx, of)).find((one) => one.job === job)
  const isReused = (one: ReusedJob) =>
    one.file === current?.file && one.id === current.jobId && one.name === current.name
  if (!current || current.startedAt !== null || !reused.some(isReused)) return
  const before = { runId: run.id, attempt: run.attempt - 1 }
  const same = (await listJobs(tx, before)).find(
    (one) => one.file === current.file && one.jobId === current.jobId && one.name === current.name,
  )
  if (!same) return
  const { startedAt, completedAt } = same
  await updateJob(tx, { ...of, job }, { startedAt, completedAt })
  const annotations = await listAnnotations(tx, before)
  // Other reused jobs may have steps of several earlier attempts, so numbers are given anew.
  const taken = (await listNamedSteps(tx, of)).map(({ step }) => step)
  let number = Math.max(firstReusedNumber - 1, ...taken)
  for (const step of await listSteps(tx, [before], whole)) {
    if (step.job !== same.job) continue
    number += 1
    await insertStep(tx, { ...step, attempt: run.attempt, job, step: number })
    for (const [index, one] of annotations.entries()) {
      if (one.step !== step.step) continue
      // Negative, because a reported one has the number of its entry.
      const place = { attempt: run.attempt, number: index - annotations.length, step: number }
      await insertAnnotation(tx, { ...one, ...place })
    }
  }
}
