import { evaluateText, evaluateTree } from '../workflow-parser/evaluate.ts'
import { isForeignLabel } from '../workflow-parser/runner-labels.ts'
import type { Job } from '../workflow-parser/workflow.ts'
import { scopeOf } from './contexts.ts'
import { evaluateBoolean } from './evaluate-settings.ts'
import { resultOf } from './job-graph.ts'
import type { ReusedJob } from './plan.ts'
import type { PlannedJob, PlannedJobs } from './plan-job.ts'
import { type JobEnd, runJob } from './run-job.ts'
import { createMatrix, type MatrixPart } from './run-matrix.ts'
import type { RunState } from './run-state.ts'
import type { RunningWorkflow } from './running-workflow.ts'
import { toFault } from './to-fault.ts'
import {
  emitJobEnd,
  emitUnrunJob,
  type Holds,
  type Unrun,
  whyCancelled,
  whyUnrun,
} from './unrun-jobs.ts'

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
  const { jobs, ...strategy } = planning
  const unrun = whyUnrun(run, holds)
  const runInMatrix = createMatrix({ run, holds, ...strategy })
  return Promise.all(
    jobs.map(async (planned): Promise<EndedJob> => {
      if (planned.kept) return reuseJob(run, job, planned, planned.kept)
      if (unrun) return { end: await emitUnrunJob(run, planned, unrun), continuesOnError: false }
      return runInMatrix(
        planned.name,
        (part) => runPlannedJob({ run, owner, job, planned, ...part }),
        ({ end, continuesOnError }) => resultOf(end.conclusion, continuesOnError),
      )
    }),
  )
}

type JobOptions = MatrixPart & {
  run: RunState
  owner: RunningWorkflow
  job: Job
  planned: PlannedJob
}

async function runPlannedJob(options: JobOptions): Promise<EndedJob> {
  const { run, owner, job, planned, cancellation, parallelLimit } = options
  let continuesOnError: boolean
  let skipped: Unrun | undefined
  try {
    continuesOnError = evaluateBoolean(job.continueOnError, scopeOf(planned.contexts))
    skipped = whySkipped(job, planned)
  } catch (error) {
    const unrun = { conclusion: 'failure', fault: toFault(error) } as const
    return { end: await emitUnrunJob(run, planned, unrun), continuesOnError: false }
  }
  if (skipped) return { end: await emitUnrunJob(run, planned, skipped), continuesOnError: false }
  // A job that starts after the cancellation does so by its `if`; only a kill ends it.
  const abortSignal = cancellation.cancelSignal.aborted
    ? cancellation.killSignal
    : cancellation.cancelSignal
  try {
    using _parallelPermit = await parallelLimit.acquire(abortSignal)
    using _jobPermit = await run.jobLimit.acquire(abortSignal)
    await run.emit({ kind: 'job-started', job: planned.number, at: run.now() })
    const end = await runJob({ run, owner, job, planned, cancellation })
    await emitJobEnd(run, planned, end, continuesOnError)
    return { end, continuesOnError }
  } catch (error) {
    if (!abortSignal.aborted) throw error
    const end = await emitUnrunJob(run, planned, whyCancelled(cancellation))
    return { end, continuesOnError }
  }
}

/** Why no runner can run a job of a matrix. */
function whySkipped(
  { runsOn = null, container }: Job,
  { contexts }: PlannedJob,
): Unrun | undefined {
  const scope = scopeOf(contexts)
  const labels = [evaluateTree(runsOn, scope)].flat()
  const foreign = labels.find((label) => typeof label === 'string' && isForeignLabel(label))
  const hasContainer = container !== undefined && evaluateText(container, scope) !== ''
  if (foreign === undefined && !hasContainer) return undefined
  const why = hasContainer
    ? 'jobs do not run in containers.'
    : `no runner has ${String(foreign)}, because all have Linux.`
  return { conclusion: 'skipped', fault: `skipped: ${why}` }
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
