import type { Json } from '../base/json.ts'
import { createSemaphore } from '../concurrency/semaphore.ts'
import { createTaskGroup } from '../concurrency/task-group.ts'
import { evaluateCondition } from '../workflow-parser/evaluate.ts'
import type { Job, Workflow } from '../workflow-parser/workflow.ts'
import type { Cancellation } from './cancellation.ts'
import { type Contexts, scopeOf, workflowContexts } from './contexts.ts'
import { emitEnds } from './emit-steps.ts'
import { evaluateBoolean } from './evaluate-settings.ts'
import { combineResults, createJobGraph, resultOf } from './job-graph.ts'
import type { Conclusion, ReusedJob } from './plan.ts'
import {
  isPlannedLater,
  type PlannedJob,
  type PlannedJobs,
  planJobs,
  planUnexpanded,
} from './plan-job.ts'
import { createJobCancellation, type JobEnd, runJob } from './run-job.ts'
import type { RunState } from './run-state.ts'
import { ended } from './step-end.ts'
import { toFault } from './to-fault.ts'

/** The end of a job that does not run. */
type Unrun = { conclusion: Conclusion; fault: string }

type Planning = PlannedJobs | { unexpanded: PlannedJob; unrun: Unrun }

/** Runs the jobs of a file, each after those that it needs. Returns the conclusions that count for the run. */
export async function runFile(run: RunState, workflow: Workflow): Promise<Conclusion[]> {
  const graph = createJobGraph(workflow.jobs)
  const base = workflowContexts(run.plan, workflow)
  const outputs = new Map<string, Record<string, string>>()
  const plannings = new Map<string, Planning>()
  const conclusions: Conclusion[] = []
  const failures: unknown[] = []

  function contextsOf({ needs }: Job): Contexts {
    const entries = needs.map((id): [string, Json] => [
      id,
      { result: graph.resultOf(id) ?? 'skipped', outputs: outputs.get(id) ?? {} },
    ])
    return { ...base, needs: Object.fromEntries(entries) }
  }

  function holdsOf(job: Job): Holds {
    return (cancelled) =>
      evaluateCondition(job.if, scopeOf(contextsOf(job), graph.statusOf(job.id, cancelled)))
  }

  // The matrix and name of a skipped job may depend on missing outputs, so, like GitHub, they are not evaluated.
  function plan(job: Job): Planning {
    const isKept = run.plan.kept.some(({ file, id }) => file === workflow.path && id === job.id)
    const unrun = isKept ? undefined : whyUnrun(run, holdsOf(job))
    if (unrun) return { unexpanded: planUnexpanded(run, workflow, job), unrun }
    try {
      return planJobs(run, workflow, job, contextsOf(job))
    } catch (error) {
      const failed = { conclusion: 'failure', fault: toFault(error) } as const
      return { unexpanded: planUnexpanded(run, workflow, job), unrun: failed }
    }
  }

  // Jobs are reported as early as possible.
  function planEarly(job: Job): Planning | undefined {
    if (job.strategy.matrix === undefined && !isPlannedLater(job)) {
      try {
        return planJobs(run, workflow, job, base)
      } catch {
        // Reported later, when it is known whether the job runs at all.
      }
    }
    return job.needs.length === 0 ? plan(job) : undefined
  }

  async function runDefinition(job: Job): Promise<void> {
    const planning = plannings.get(job.id) ?? plan(job)
    const holds = holdsOf(job)
    if ('jobs' in planning) {
      for (const { contexts } of planning.jobs) Object.assign(contexts, contextsOf(job))
    }
    const ends = await runPlanned({ run, workflow, job, planning, holds })
    for (const { end, continuesOnError } of ends) {
      if (!continuesOnError || end.conclusion === 'success') conclusions.push(end.conclusion)
      outputs.set(job.id, { ...outputs.get(job.id), ...nonEmpty(end.outputs) })
    }
    const results = ends.map(({ end, continuesOnError }) =>
      resultOf(end.conclusion, continuesOnError),
    )
    graph.end(job.id, combineResults(results))
  }

  for (const job of workflow.jobs) {
    const planning = planEarly(job)
    if (planning) plannings.set(job.id, planning)
  }
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
  return conclusions
}

type Ended = { end: JobEnd; continuesOnError: boolean }

type RunOptions = {
  run: RunState
  workflow: Workflow
  job: Job
  planning: Planning
  holds: Holds
}

/** Whether the `if` of a job holds, depending on whether the run is cancelled. */
type Holds = (cancelled: boolean) => boolean

async function runPlanned({ run, workflow, job, planning, holds }: RunOptions): Promise<Ended[]> {
  if ('unexpanded' in planning) {
    const { unexpanded, unrun } = planning
    const end = await emitUnrunJob(run, unexpanded, unrun.conclusion, unrun.fault)
    return [{ end, continuesOnError: false }]
  }
  const { jobs, failFast, maxParallel } = planning
  const unrun = whyUnrun(run, holds)
  const parallelLimit = createSemaphore(maxParallel)
  const cancellations = new Set<Cancellation>()
  return Promise.all(
    jobs.map(async (planned): Promise<Ended> => {
      if (planned.kept) return reuseJob(run, job, planned, planned.kept)
      if (unrun) {
        const end = await emitUnrunJob(run, planned, unrun.conclusion, unrun.fault)
        return { end, continuesOnError: false }
      }
      using cancellation = createJobCancellation(run, () => holdsSafely(holds))
      cancellations.add(cancellation)
      const ended = await runPlannedJob({
        run,
        workflow,
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
  workflow: Workflow
  job: Job
  planned: PlannedJob
  cancellation: Cancellation
  parallelLimit: ReturnType<typeof createSemaphore>
}

async function runPlannedJob({
  run,
  workflow,
  job,
  planned,
  cancellation,
  parallelLimit,
}: JobOptions): Promise<Ended> {
  let continuesOnError: boolean
  try {
    continuesOnError = evaluateBoolean(job.continueOnError, scopeOf(planned.contexts))
  } catch (error) {
    return {
      end: await emitUnrunJob(run, planned, 'failure', toFault(error)),
      continuesOnError: false,
    }
  }
  // A job that starts after the cancellation does so by its `if`; only a kill ends it.
  const abortSignal = cancellation.cancelSignal.aborted
    ? cancellation.killSignal
    : cancellation.cancelSignal
  try {
    using _parallelPermit = await parallelLimit.acquire(abortSignal)
    using _jobPermit = await run.jobLimit.acquire(abortSignal)
    await run.emit({ kind: 'job-started', job: planned.number, at: run.now() })
    const end = await runJob({ run, workflow, job, planned, cancellation })
    await emitJobEnd(run, planned, end)
    return { end, continuesOnError }
  } catch (error) {
    if (!abortSignal.aborted) throw error
    const { conclusion = 'cancelled', text = '' } = cancellation.why() ?? {}
    return { end: await emitUnrunJob(run, planned, conclusion, text), continuesOnError }
  }
}

async function reuseJob(
  run: RunState,
  job: Job,
  planned: PlannedJob,
  { conclusion, outputs }: ReusedJob,
): Promise<Ended> {
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

/** Reports a job that does not run. */
async function emitUnrunJob(
  run: RunState,
  planned: PlannedJob,
  conclusion: Conclusion,
  fault: string,
): Promise<JobEnd> {
  for (const step of planned.steps) await emitEnds({ run }, step, ended('skipped'))
  const end = { conclusion, outputs: {}, fault }
  await emitJobEnd(run, planned, end)
  return end
}

async function emitJobEnd(run: RunState, { number: job }: PlannedJob, end: JobEnd): Promise<void> {
  await run.emit({ kind: 'job-ended', job, at: run.now(), ...end })
}

/** Why a job does not run; undefined when it does. */
function whyUnrun({ cancellation }: RunState, holds: Holds): Unrun | undefined {
  try {
    const isRunCancelled = cancellation.cancelSignal.aborted
    if (holds(isRunCancelled)) return undefined
    const isCancelled = isRunCancelled && holds(false)
    return isCancelled
      ? { conclusion: 'cancelled', fault: cancellation.why()?.text ?? '' }
      : { conclusion: 'skipped', fault: '' }
  } catch (error) {
    return { conclusion: 'failure', fault: toFault(error) }
  }
}

function holdsSafely(holds: Holds): boolean {
  try {
    return holds(true)
  } catch {
    return false
  }
}

// In a matrix, the last job with a non-empty value sets an output.
function nonEmpty(outputs: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(outputs).filter(([, value]) => value !== ''))
}
