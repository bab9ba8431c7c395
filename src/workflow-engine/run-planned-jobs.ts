import { createSemaphore } from '../concurrency/semaphore.ts'
import { evaluateTree } from '../workflow-parser/evaluate.ts'
import { isForeignLabel } from '../workflow-parser/runner-labels.ts'
import type { Job } from '../workflow-parser/workflow.ts'
import type { Cancellation } from './cancellation.ts'
import { scopeOf } from './contexts.ts'
import { evaluateBoolean } from './evaluate-settings.ts'
import type { ReusedJob } from './plan.ts'
import type { PlannedJob, PlannedJobs } from './plan-job.ts'
import { createJobCancellation, type JobEnd, runJob } from './run-job.ts'
import type { RunState } from './run-state.ts'
import type { RunningWorkflow } from './running-workflow.ts'
import { toFault } from './to-fault.ts'
import { emitJobEnd, emitUnrunJob, type Holds, holdsSafely, whyUnrun } from './unrun-jobs.ts'

export type EndedJob = { end: JobEnd; continuesOnError: boolean }

type RunOptions = {
  run: RunState
  owner: RunningWorkflow
  job: Job
  planning: PlannedJobs
  holds: Holds
}

/** Runs the jobs of a definition concurrently, as far as its strategy allows. */
export async function runPlannedJobs(options: RunOptions): Promise<EndedJob[]> {
  const { run, owner, job, planning, holds } = options
  const { jobs, failFast, maxParallel } = planning
  const unrun = whyUnrun(run, holds)
  const parallelLimit = createSemaphore(maxParallel)
  const cancellations = new Set<Cancellation>()
  return Promise.all(
    jobs.map(async (planned): Promise<EndedJob> => {
      if (planned.kept) return reuseJob(run, job, planned, planned.kept)
      if (unrun) return { end: await emitUnrunJob(run, planned, unrun), continuesOnError: false }
      using cancellation = createJobCancellation(run, () => holdsSafely(holds))
      cancellations.add(cancellation)
      const ended = await runPlannedJob({
        run,
        owner,
        job,
        planned,
        cancellation,
        parallelLimit,
      })
      cancellations.delete(cancellation)
      const { conclusion } = ended.end
      const isFailed = conclusion === 'failure' || conclusion === 'timed_out'
      if (failFast && isFailed && !ended.continuesOnError) {
        const text = `${planned.name} failed, and the matrix has fail-fast.`
        for (const other of cancellations) other.cancel({ conclusion: 'cancelled', text })
      }
      return ended
    }),
  )
}

type JobOptions = {
  run: RunState
  owner: RunningWorkflow
  job: Job
  planned: PlannedJob
  cancellation: Cancellation
  parallelLimit: ReturnType<typeof createSemaphore>
}

async function runPlannedJob(options: JobOptions): Promise<EndedJob> {
  const { run, owner, job, planned, cancellation, parallelLimit } = options
  let continuesOnError: boolean
  let foreign: string | undefined
  try {
    continuesOnError = evaluateBoolean(job.continueOnError, scopeOf(planned.contexts))
    foreign = foreignLabelOf(job, planned)
  } catch (error) {
    const unrun = { conclusion: 'failure', fault: toFault(error) } as const
    return { end: await emitUnrunJob(run, planned, unrun), continuesOnError: false }
  }
  if (foreign !== undefined) {
    const fault = `skipped: no runner has ${foreign}, because all have Linux.`
    const end = await emitUnrunJob(run, planned, { conclusion: 'skipped', fault })
    return { end, continuesOnError: false }
  }
  // A job that starts after the cancellation does so by its `if`; only a kill ends it.
  const abortSignal = cancellation.cancelSignal.aborted
    ? cancellation.killSignal
    : cancellation.cancelSignal
  try {
    using _parallelPermit = await parallelLimit.acquire(abortSignal)
    using _jobPermit = await run.jobLimit.acquire(abortSignal)
    await run.emit({ kind: 'job-started', job: planned.number, at: run.now() })
    const end = await runJob({ run, owner, job, planned, cancellation })
    await emitJobEnd(run, planned, end)
    return { end, continuesOnError }
  } catch (error) {
    if (!abortSignal.aborted) throw error
    const { conclusion = 'cancelled', text: fault = '' } = cancellation.why() ?? {}
    return { end: await emitUnrunJob(run, planned, { conclusion, fault }), continuesOnError }
  }
}

function foreignLabelOf({ runsOn = null }: Job, { contexts }: PlannedJob): string | undefined {
  const labels = evaluateTree(runsOn, scopeOf(contexts))
  return [labels].flat().find((label) => typeof label === 'string' && isForeignLabel(label)) as
    | string
    | undefined
}

async function reuseJob(
  run: RunState,
  job: Job,
  planned: PlannedJob,
  { conclusion, outputs }: ReusedJob,
): Promise<EndedJob> {
  const end = { conclusion, outputs, fault: '' }
  await emitJobEnd(run, planned, end)
  try {
    return {
      end,
      continuesOnError: evaluateBoolean(job.continueOnError, scopeOf(planned.contexts)),
    }
  } catch {
    // The previous attempt failed for the same reason.
    return { end, continuesOnError: false }
  }
}
