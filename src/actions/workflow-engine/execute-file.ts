import { createTaskGroup } from '#base/concurrency/task-group.ts'
import type { Json } from '#base/json.ts'
import {
  evaluateCondition,
  evaluateText,
  evaluateTree,
} from '../workflow-parser/expressions/evaluate.ts'
import { isForeignLabel } from '../workflow-parser/runner-labels.ts'
import type { Job, WorkflowCall } from '../workflow-parser/workflow.ts'
import { type Contexts, scopeOf, withToken } from './contexts.ts'
import { executeJob, type JobEnd } from './execute-job.ts'
import type { Conclusion, ReusedJob } from './plan.ts'
import { evaluateBoolean } from './planning/evaluate-settings.ts'
import { combineResults, createJobGraph, resultOf } from './planning/job-graph.ts'
import {
  isPlannedLater,
  type PlannedJob,
  type PlannedJobs,
  planJobs,
  planUnexpanded,
} from './planning/plan-job.ts'
import { identityOf, jobIdIn, type RunningWorkflow } from './planning/running-workflow.ts'
import { type CallEnd, runCalls, type WorkflowEnd } from './run-calls.ts'
import { createMatrix, type MatrixPart } from './run-matrix.ts'
import type { RunState } from './run-state.ts'
import { toFault } from './step-end.ts'
import {
  emitJobEnd,
  emitUnrunJob,
  type Holds,
  type Unrun,
  whyCancelled,
  whyUnrun,
  whyUnsupported,
} from './unrun-jobs.ts'

type Planning = PlannedJobs | { unexpanded: PlannedJob; unrun: Unrun }

/** Runs the jobs of a workflow, each after those that it needs. */
export async function executeFile(run: RunState, owner: RunningWorkflow): Promise<WorkflowEnd> {
  const { workflow } = owner
  const graph = createJobGraph(workflow.jobs)
  const outputs = new Map<string, Record<string, string>>()
  const plannings = new Map<string, Planning>()
  const conclusions: Conclusion[] = []
  const failures: unknown[] = []

  const endOf = (id: string) => ({
    result: graph.resultOf(id) ?? 'skipped',
    outputs: outputs.get(id) ?? {},
  })

  function contextsOf(job: Job): Contexts {
    const entries = job.needs.map((id): [string, Json] => [id, endOf(id)])
    const own = withToken(owner.contexts, identityOf(run.plan, owner, job))
    return { ...own, needs: Object.fromEntries(entries) }
  }

  function holdsOf(job: Job): Holds {
    return (cancelled) =>
      evaluateCondition(job.if, scopeOf(contextsOf(job), graph.statusOf(job.id, cancelled)))
  }

  // The matrix and name of a skipped job may depend on missing outputs, so, like GitHub, they are not evaluated.
  function plan(job: Job): Planning {
    const unrun = isKept(run, owner, job)
      ? undefined
      : (whyUnsupported(run, job) ?? whyUnrun(run, holdsOf(job)))
    if (unrun) return { unexpanded: planUnexpanded(run, owner, job), unrun }
    try {
      return planJobs(run, owner, job, contextsOf(job))
    } catch (error) {
      const failed = { conclusion: 'failure', fault: toFault(error) } as const
      return { unexpanded: planUnexpanded(run, owner, job), unrun: failed }
    }
  }

  function planEarly(job: Job): Planning | undefined {
    if (job.call) return undefined
    if (!isExpandedLater(job) && !whyUnsupported(run, job)) {
      try {
        return planJobs(run, owner, job, owner.contexts)
      } catch {
        // Reported later, when it is known whether the job runs at all.
      }
    }
    return job.needs.length === 0 ? plan(job) : undefined
  }

  // Jobs are reported as early as possible, but not before those of a matrix that they need.
  function planReady(): void {
    const isUnexpanded = createUnexpandedCheck(workflow.jobs, plannings)
    for (const job of workflow.jobs) {
      if (plannings.has(job.id) || job.needs.some(isUnexpanded)) continue
      const planning = planEarly(job)
      if (planning) plannings.set(job.id, planning)
    }
  }

  async function runJobs(job: Job): Promise<CallEnd[]> {
    const planning = plannings.get(job.id) ?? plan(job)
    plannings.set(job.id, planning)
    planReady()
    if ('unexpanded' in planning) {
      const end = await emitUnrunJob(run, planning.unexpanded, planning.unrun)
      return [toEnd({ end, continuesOnError: false })]
    }
    for (const { contexts } of planning.jobs) Object.assign(contexts, contextsOf(job))
    const ends = await runPlannedJobs({ run, owner, job, planning, holds: holdsOf(job) })
    return ends.map(toEnd)
  }

  function callWorkflow(job: Job, call: WorkflowCall): Promise<CallEnd[]> {
    return runCalls({
      run,
      owner,
      job,
      call,
      contexts: contextsOf(job),
      holds: holdsOf(job),
      isKept: isKept(run, owner, job),
      runWorkflow: executeFile,
    })
  }

  async function runDefinition(job: Job): Promise<void> {
    const ends = job.call ? await callWorkflow(job, job.call) : await runJobs(job)
    for (const end of ends) {
      conclusions.push(...end.conclusions)
      outputs.set(job.id, { ...outputs.get(job.id), ...nonEmpty(end.outputs) })
    }
    graph.end(job.id, combineResults(ends.map(({ result }) => result)))
  }

  planReady()
  const running = createTaskGroup()
  for (;;) {
    for (const job of workflow.jobs.filter(({ id }) => graph.ready().includes(id))) {
      graph.begin(job.id)
      const work = runDefinition(job).catch((error: unknown) => {
        failures.push(error)
        graph.end(job.id, 'failure')
      })
      void running.add(work)
    }
    if (running.size() === 0) break
    await running.next()
  }
  // These are internal errors. The other jobs have ended by now.
  if (failures.length > 0) throw failures[0]
  const jobs = Object.fromEntries(workflow.jobs.map(({ id }) => [id, endOf(id)]))
  return { conclusions, jobs }
}

const isExpandedLater = (job: Job) => job.strategy.matrix !== undefined || isPlannedLater(job)

/** Returns a predicate: whether a definition, or one that it needs, has not been expanded into its jobs yet. */
function createUnexpandedCheck(jobs: readonly Job[], plannings: ReadonlyMap<string, Planning>) {
  const definitions = new Map(jobs.map((job) => [job.id, job]))
  const known = new Map<string, boolean>()

  return function isUnexpanded(id: string): boolean {
    const job = definitions.get(id)
    if (!job || job.call || plannings.has(id)) return false
    const found =
      known.get(id) ??
      ((isExpandedLater(job) && job.needs.length > 0) || job.needs.some(isUnexpanded))
    known.set(id, found)
    return found
  }
}

/** Whether a job of the previous attempt is reused, or one of the workflow that it calls. */
function isKept({ plan }: RunState, owner: RunningWorkflow, job: Job): boolean {
  const id = jobIdIn(owner, job.id)
  return plan.kept.some(
    (one) =>
      one.file === owner.file.path && (job.call ? one.id.startsWith(`${id}/`) : one.id === id),
  )
}

function toEnd({ end, continuesOnError }: EndedJob): CallEnd {
  const { conclusion, outputs } = end
  const isTolerated = continuesOnError && conclusion !== 'success'
  return {
    result: resultOf(conclusion, continuesOnError),
    conclusions: isTolerated ? [] : [conclusion],
    outputs,
  }
}

// In a matrix, the last job with a non-empty value sets an output.
function nonEmpty(outputs: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(outputs).filter(([, value]) => value !== ''))
}

type EndedJob = { end: JobEnd; continuesOnError: boolean }

type RunOptions = {
  run: RunState
  owner: RunningWorkflow
  job: Job
  planning: PlannedJobs
  holds: Holds
}

/** Runs the jobs of a definition concurrently, as far as its strategy allows. */
async function runPlannedJobs(options: RunOptions): Promise<EndedJob[]> {
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
    const end = await executeJob({ run, owner, job, planned, cancellation })
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
