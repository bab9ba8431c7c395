import type { Semaphore } from '#base/concurrency/semaphore.ts'
import type { Sandbox } from '../sandbox/sandbox.ts'
import { createMasker } from '../secret-masking/masker.ts'
import { parseAction, parseWorkflow } from '../workflow-parser/reading/parse.ts'
import { formatFaults } from '../workflow-parser/source/fault-list.ts'
import type { Action, Fault, SourceFile, Workflow } from '../workflow-parser/workflow.ts'
import { afterTime, type Cancellation, createCancellation, onAbort } from './cancellation.ts'
import { type RunnerContext, secretValues } from './contexts.ts'
import { executeFile } from './execute-file.ts'
import { createAnnotationLimits } from './output/annotations.ts'
import { createEntryEmitter } from './output/entry-emitter.ts'
import type { Conclusion, Plan, RunEntry } from './plan.ts'
import { concludeRun } from './planning/job-graph.ts'
import { openWorkflow } from './planning/running-workflow.ts'
import type { CheckOut, CheckOutAgain, KeepFailed, RunState } from './run-state.ts'
import type { RunStorage } from './run-storage.ts'
import { durationInWords, toFault } from './step-end.ts'

type Options = {
  plan: Plan
  sandbox: Sandbox
  runner: RunnerContext
  checkOut: CheckOut
  checkOutAgain: CheckOutAgain
  storage: RunStorage
  /** By default the workspaces of all jobs are removed. */
  keepFailed?: KeepFailed
  /** Limits the concurrent jobs of all runs of a runner. */
  jobLimit: Semaphore
  /** Receives the entries in order. Its promise is the backpressure on a step's output; a rejection ends the run. */
  report: (entry: RunEntry) => void | Promise<void>
  /** Aborted to cancel the run; its reason is reported. Steps with `always()` or `cancelled()` then have a minute. */
  signal: AbortSignal
  /** The ids of the jobs to run, together with those that they need. Defaults to all. */
  jobs?: readonly string[]
  /** Aborted to kill the run at once. */
  kill?: AbortSignal
  now?: () => number
}

// The jobs and steps of a file are reported before its first job starts, and the server stores them.
const maxJobs = 1000
const maxSteps = 10_000

/** Executes all files of a plan. Rejects only with an error of `report`, after everything of the run has been cleaned up. */
export async function executeRun(options: Options): Promise<void> {
  const { plan, sandbox, report, signal, kill, now = Date.now } = options
  using cancellation = createCancellation()
  let reportFailure: { error: unknown } | undefined
  const masker = createMasker([...secretValues(plan), ...tokensOf(plan)])
  const emit = createEntryEmitter({
    report,
    masker,
    onFailure(error) {
      reportFailure ??= { error }
      cancellation.kill({ conclusion: 'cancelled', text: toFault(error) })
    },
  })
  const cancelledBy = (from: AbortSignal) =>
    ({ conclusion: 'cancelled', text: reasonOf(from) }) as const
  using _cancel = onAbort(signal, () => cancellation.cancel(cancelledBy(signal)))
  using _kill = kill && onAbort(kill, () => cancellation.kill(cancelledBy(kill)))
  const { runTimeoutMs } = plan.limits
  using _timer = afterTime(runTimeoutMs, () => {
    const text = `The run exceeded its time limit of ${durationInWords(runTimeoutMs)}.`
    cancellation.cancel({ conclusion: 'timed_out', text })
  })

  const { kind: isolation, description } = sandbox.isolation
  await emit({ kind: 'isolation', isolation, description })
  const { started, workflows, actions, faults } = parsePlan(plan)
  const end =
    faults.length > 0
      ? ({ conclusion: 'failure', fault: formatFaults(faults).join('\n') } as const)
      : await runAll({ ...options, cancellation, masker, emit, actions, workflows, now }, started)
  await emit({ kind: 'run-ended', at: now(), ...end })
  if (reportFailure) throw reportFailure.error
}

type RunParts = Options &
  Pick<RunState, 'masker' | 'emit' | 'actions' | 'workflows' | 'now'> & {
    cancellation: Cancellation
  }

async function runAll(parts: RunParts, started: Workflow[]) {
  let [jobCount, stepCount] = [0, 0]
  const run: RunState = {
    ...parts,
    assertWithinLimits(moreJobs, moreSteps) {
      if (jobCount + moreJobs <= maxJobs && stepCount + moreSteps <= maxSteps) return
      throw new Error(`A run can have at most ${maxJobs} jobs and ${maxSteps} steps in total.`)
    },
    annotationLimits: createAnnotationLimits(),
    nextJob: () => jobCount++,
    nextStep: () => stepCount++,
  }
  const faults: string[] = []
  const conclusions = await Promise.all(
    started.map(async (file): Promise<Conclusion[]> => {
      try {
        const end = await executeFile(run, openWorkflow(run.plan, withJobs(file, parts.jobs)))
        return end.conclusions
      } catch (error) {
        faults.push(`${file.path}: ${toFault(error)}`)
        return ['failure']
      }
    }),
  )
  const why = parts.cancellation.why()
  if (why) return { conclusion: why.conclusion, fault: why.text }
  return { conclusion: concludeRun(conclusions.flat()), fault: faults.join('\n') }
}

function parsePlan({ files, actions, called }: Plan) {
  const faults: Fault[] = []
  const parse = (file: SourceFile) => {
    const { workflow, faults: found } = parseWorkflow(file)
    faults.push(...found)
    return workflow ?? []
  }
  const started = files.flatMap(parse)
  const all = [...started, ...called.flatMap(parse)]
  const byFolder = new Map<string, Action>()
  for (const file of actions) {
    const { action, faults: found } = parseAction(file)
    faults.push(...found)
    if (action) byFolder.set(action.path, action)
  }
  const workflows = new Map(all.map((workflow) => [workflow.path, workflow]))
  return { started, workflows, actions: byFolder, faults }
}

function tokensOf({ identities }: Plan): string[] {
  return identities.flatMap(({ token, idTokens }) => (idTokens ? [token, idTokens.token] : [token]))
}

function withJobs(workflow: Workflow, requestedIds: readonly string[] | undefined): Workflow {
  if (!requestedIds) return workflow
  const needed = new Set<string>()
  const open = [...requestedIds]
  for (let id = open.pop(); id !== undefined; id = open.pop()) {
    const job = workflow.jobs.find((one) => one.id === id)
    if (!job || needed.has(id)) continue
    needed.add(id)
    open.push(...job.needs)
  }
  return { ...workflow, jobs: workflow.jobs.filter(({ id }) => needed.has(id)) }
}

function reasonOf({ reason }: AbortSignal): string {
  if (typeof reason === 'string') return reason
  // The default reason of a signal is an AbortError without information.
  return reason instanceof Error && reason.name !== 'AbortError' ? reason.message : 'Cancelled.'
}
