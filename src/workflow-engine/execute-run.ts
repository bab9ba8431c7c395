import type { Semaphore } from '../concurrency/semaphore.ts'
import type { Sandbox } from '../sandbox/sandbox.ts'
import { createMasker } from '../secret-masking/masker.ts'
import { formatFault } from '../workflow-parser/fault-list.ts'
import { parseAction, parseWorkflow } from '../workflow-parser/parse.ts'
import type { Action, Fault, Workflow } from '../workflow-parser/workflow.ts'
import { afterTime, type Cancellation, createCancellation, onAbort } from './cancellation.ts'
import type { RunnerContext } from './contexts.ts'
import { createEntryEmitter } from './entry-emitter.ts'
import { toFault } from './error-text.ts'
import { concludeRun } from './job-graph.ts'
import type { Conclusion, Plan, RunEntry } from './plan.ts'
import { runFile } from './run-file.ts'
import type { CheckOut, RunState } from './run-state.ts'
import { toDuration } from './step-end.ts'

type Options = {
  plan: Plan
  sandbox: Sandbox
  runner: RunnerContext
  checkOut: CheckOut
  /** Shared by all runs of a runner. */
  slots: Semaphore
  /** Gets what happens, in order; what a step writes next waits for its promise. When it rejects, the run ends. */
  report: (entry: RunEntry) => void | Promise<void>
  /** Aborted to cancel the run; its reason is told. What asks to run in spite of it has a minute. */
  signal: AbortSignal
  /** The jobs that are wanted, by their ids; they run with those that they need. Left out: all. */
  jobs?: readonly string[]
  /** Aborted to end the run at once. */
  kill?: AbortSignal
  now?: () => number
}

// All of them are told before the first begins, and kept by whoever is told.
const jobsMax = 1000
const stepsMax = 10_000

/** Executes all files of a plan. Rejects only when `report` did, with its error, and when nothing of the run remains. */
export async function executeRun(options: Options): Promise<void> {
  const { plan, sandbox, report, signal, kill, now = Date.now } = options
  using ending = createCancellation()
  let unheard: { error: unknown } | undefined
  const masker = createMasker(Object.values(plan.secrets))
  const emit = createEntryEmitter({
    report,
    masker,
    onFailure(error) {
      unheard ??= { error }
      ending.kill({ conclusion: 'cancelled', text: toFault(error) })
    },
  })
  const why = (from: AbortSignal) => ({ conclusion: 'cancelled', text: reasonOf(from) }) as const
  using _cancel = onAbort(signal, () => ending.stop(why(signal)))
  using _kill = kill && onAbort(kill, () => ending.kill(why(kill)))
  const { runTimeoutMs } = plan.limits
  using _timer = afterTime(runTimeoutMs, () => {
    const text = `The run took longer than ${toDuration(runTimeoutMs)}.`
    ending.stop({ conclusion: 'timed_out', text })
  })

  const { kind: isolation, description } = sandbox.isolation
  await emit({ kind: 'isolation', isolation, description })
  const { workflows, actions, faults } = read(plan)
  const end =
    faults.length > 0
      ? ({ conclusion: 'failure', fault: faults.map(formatFault).join('\n') } as const)
      : await runAll({ ...options, ending, masker, emit, actions, now }, workflows)
  await emit({ kind: 'run-ended', at: now(), ...end })
  if (unheard) throw unheard.error
}

type Parts = Options &
  Pick<RunState, 'masker' | 'emit' | 'actions' | 'now'> & { ending: Cancellation }

async function runAll(parts: Parts, workflows: Workflow[]) {
  let [jobs, steps] = [0, 0]
  const run: RunState = {
    ...parts,
    assertRoomFor(moreJobs, moreSteps) {
      if (jobs + moreJobs <= jobsMax && steps + moreSteps <= stepsMax) return
      throw new Error(`A run can have ${jobsMax} jobs and ${stepsMax} steps, all together.`)
    },
    nextJob: () => jobs++,
    nextStep: () => steps++,
  }
  const faults: string[] = []
  const conclusions = await Promise.all(
    workflows.map((workflow) =>
      runFile(run, withJobs(workflow, parts.jobs)).catch((error): Conclusion[] => {
        faults.push(`${workflow.path}: ${toFault(error)}`)
        return ['failure']
      }),
    ),
  )
  const why = parts.ending.why()
  if (why) return { conclusion: why.conclusion, fault: why.text }
  return { conclusion: concludeRun(conclusions.flat()), fault: faults.join('\n') }
}

function read({ files, actions }: Plan) {
  const faults: Fault[] = []
  const workflows = files.flatMap((file) => {
    const { workflow, faults: found } = parseWorkflow(file)
    faults.push(...found)
    return workflow ? [workflow] : []
  })
  const byFolder = new Map<string, Action>()
  for (const file of actions) {
    const { action, faults: found } = parseAction(file)
    faults.push(...found)
    if (action) byFolder.set(action.path, action)
  }
  return { workflows, actions: byFolder, faults }
}

function withJobs(workflow: Workflow, wanted: readonly string[] | undefined): Workflow {
  if (!wanted) return workflow
  const needed = new Set<string>()
  const open = [...wanted]
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
  // Without a reason of its own a signal has one that says nothing.
  return reason instanceof Error && reason.name !== 'AbortError' ? reason.message : 'Cancelled.'
}
