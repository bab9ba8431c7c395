import { createSemaphore } from '../concurrency/semaphore.ts'
import { evaluateCondition } from '../workflow-parser/evaluate.ts'
import type { Json } from '../workflow-parser/scope.ts'
import type { Job, Workflow } from '../workflow-parser/workflow.ts'
import type { Cancellation } from './cancellation.ts'
import { type Contexts, scopeOf, workflowContexts } from './contexts.ts'
import { emitEnds } from './emit-steps.ts'
import { toFault } from './error-text.ts'
import { evaluateBoolean } from './evaluate-settings.ts'
import { combineResults, createJobGraph, resultOf } from './job-graph.ts'
import type { Conclusion, ReusedJob } from './plan.ts'
import {
  isPlannedLater,
  type PlannedJob,
  type PlannedJobs,
  planBare,
  planJobs,
} from './plan-job.ts'
import { endingOf, type JobEnd, runJob } from './run-job.ts'
import type { RunState } from './run-state.ts'
import { ended } from './step-end.ts'

/** How a job ends that does not run. */
type Unrun = { conclusion: Conclusion; fault: string }

type Planning = PlannedJobs | { bare: PlannedJob; unrun: Unrun }

/** Runs the jobs of a file, each when those that it needs have ended; the conclusions that count for the run. */
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

  // The matrix and the name of a job that is skipped may be of what nobody has made: GitHub does not look at them.
  function plan(job: Job): Planning {
    const isKept = run.plan.kept.some(({ file, id }) => file === workflow.path && id === job.id)
    const unrun = isKept ? undefined : whyUnrun(run, holdsOf(job))
    if (unrun) return { bare: planBare(run, workflow, job), unrun }
    try {
      return planJobs(run, workflow, job, contextsOf(job))
    } catch (error) {
      const failed = { conclusion: 'failure', fault: toFault(error) } as const
      return { bare: planBare(run, workflow, job), unrun: failed }
    }
  }

  // All are to be known early that can be.
  function planEarly(job: Job): Planning | undefined {
    if (job.strategy.matrix === undefined && !isPlannedLater(job)) {
      try {
        return planJobs(run, workflow, job, base)
      } catch {
        // It is told when it is known whether the job runs at all.
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
    for (const { end, isPassedOver } of ends) {
      if (!isPassedOver || end.conclusion === 'success') conclusions.push(end.conclusion)
      outputs.set(job.id, { ...outputs.get(job.id), ...withValues(end.outputs) })
    }
    const results = ends.map(({ end, isPassedOver }) => resultOf(end.conclusion, isPassedOver))
    graph.end(job.id, combineResults(results))
  }

  for (const job of workflow.jobs) {
    const planning = planEarly(job)
    if (planning) plannings.set(job.id, planning)
  }
  const running = new Set<Promise<void>>()
  for (;;) {
    for (const job of workflow.jobs.filter(({ id }) => graph.ready().includes(id))) {
      graph.begin(job.id)
      const work = runDefinition(job)
        .catch((error: unknown) => {
          failures.push(error)
          graph.end(job.id, 'failure')
        })
        .finally(() => running.delete(work))
      running.add(work)
    }
    if (running.size === 0) break
    await Promise.race(running)
  }
  // None of them is the workflow's fault; the others have ended first.
  if (failures.length > 0) throw failures[0]
  return conclusions
}

type Ended = { end: JobEnd; isPassedOver: boolean }

type RunOptions = {
  run: RunState
  workflow: Workflow
  job: Job
  planning: Planning
  holds: Holds
}

/** Whether the `if` of a job holds, in a run that is cancelled or is not. */
type Holds = (cancelled: boolean) => boolean

async function runPlanned({ run, workflow, job, planning, holds }: RunOptions): Promise<Ended[]> {
  if ('bare' in planning) {
    const { bare, unrun } = planning
    const end = await tellEnd(run, bare, unrun.conclusion, unrun.fault)
    return [{ end, isPassedOver: false }]
  }
  const { jobs, failFast, maxParallel } = planning
  const unrun = whyUnrun(run, holds)
  const places = createSemaphore(maxParallel)
  const endings = new Set<Cancellation>()
  return Promise.all(
    jobs.map(async (planned): Promise<Ended> => {
      if (planned.kept) return keep(run, job, planned, planned.kept)
      if (unrun) {
        const end = await tellEnd(run, planned, unrun.conclusion, unrun.fault)
        return { end, isPassedOver: false }
      }
      using ending = endingOf(run, () => holdsSafely(holds))
      endings.add(ending)
      const ended = await runOne({ run, workflow, job, planned, ending, places })
      endings.delete(ending)
      const { conclusion } = ended.end
      const isFailed = conclusion === 'failure' || conclusion === 'timed_out'
      if (failFast && isFailed && !ended.isPassedOver) {
        const text = `${planned.name} failed, and the matrix is to fail fast.`
        for (const other of endings) other.stop({ conclusion: 'cancelled', text })
      }
      return ended
    }),
  )
}

type One = {
  run: RunState
  workflow: Workflow
  job: Job
  planned: PlannedJob
  ending: Cancellation
  places: ReturnType<typeof createSemaphore>
}

async function runOne({ run, workflow, job, planned, ending, places }: One): Promise<Ended> {
  let isPassedOver: boolean
  try {
    isPassedOver = evaluateBoolean(job.continueOnError, scopeOf(planned.contexts))
  } catch (error) {
    return { end: await tellEnd(run, planned, 'failure', toFault(error)), isPassedOver: false }
  }
  // One that begins when the run is to end already does so because it asks for it, and ends with all.
  const patience = ending.soft.aborted ? ending.hard : ending.soft
  try {
    using _place = await places.acquire(patience)
    using _slot = await run.slots.acquire(patience)
    await run.emit({ kind: 'job-started', job: planned.number, at: run.now() })
    const end = await runJob({ run, workflow, job, planned, ending })
    await tellJobEnd(run, planned, end)
    return { end, isPassedOver }
  } catch (error) {
    if (!patience.aborted) throw error
    const { conclusion = 'cancelled', text = '' } = ending.why() ?? {}
    return { end: await tellEnd(run, planned, conclusion, text), isPassedOver }
  }
}

async function keep(
  run: RunState,
  job: Job,
  planned: PlannedJob,
  { conclusion, outputs }: ReusedJob,
): Promise<Ended> {
  const end = { conclusion, outputs, fault: '' }
  await tellJobEnd(run, planned, end)
  try {
    return { end, isPassedOver: evaluateBoolean(job.continueOnError, scopeOf(planned.contexts)) }
  } catch {
    // It failed by this then, too.
    return { end, isPassedOver: false }
  }
}

/** Tells of a job that does not run. */
async function tellEnd(
  run: RunState,
  planned: PlannedJob,
  conclusion: Conclusion,
  fault: string,
): Promise<JobEnd> {
  for (const step of planned.steps) await emitEnds({ run }, step, ended('skipped'))
  const end = { conclusion, outputs: {}, fault }
  await tellJobEnd(run, planned, end)
  return end
}

async function tellJobEnd(run: RunState, { number: job }: PlannedJob, end: JobEnd): Promise<void> {
  await run.emit({ kind: 'job-ended', job, at: run.now(), ...end })
}

/** Why a job does not run now; undefined when it does. */
function whyUnrun({ ending }: RunState, holds: Holds): Unrun | undefined {
  try {
    const isStopped = ending.soft.aborted
    if (holds(isStopped)) return undefined
    const isCancelled = isStopped && holds(false)
    return isCancelled
      ? { conclusion: 'cancelled', fault: ending.why()?.text ?? '' }
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

// Of a matrix, the last job that has a value for an output gives it.
function withValues(outputs: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(outputs).filter(([, value]) => value !== ''))
}
