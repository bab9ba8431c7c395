import { maxCallLevels, tooManyLevels } from '../workflow-parser/call-graph.ts'
import { evaluateText, evaluateTree } from '../workflow-parser/expressions/evaluate.ts'
import { permissionsOf } from '../workflow-parser/job-permissions.ts'
import { readCallInputs } from '../workflow-parser/reading/given-inputs.ts'
import type { CallInput, Job, Workflow, WorkflowCall } from '../workflow-parser/workflow.ts'
import { type Contexts, listedSecrets, scopeOf, stepSecrets } from './contexts.ts'
import type { Conclusion } from './plan.ts'
import { evaluateBoolean, evaluateNumber, evaluateOutputs } from './planning/evaluate-settings.ts'
import { combineResults, type JobResult, resultOf } from './planning/job-graph.ts'
import { type ExpandedJobs, expandJob, planUnexpanded } from './planning/plan-job.ts'
import { jobNetworkOf, type RunningWorkflow } from './planning/running-workflow.ts'
import { createMatrix, type MatrixPart } from './run-matrix.ts'
import type { RunState } from './run-state.ts'
import { toFault } from './step-end.ts'
import { emitUnrunJob, type Holds, type Unrun, whyCancelled, whyUnrun } from './unrun-jobs.ts'

/** The end of the jobs of a workflow, by id. */
export type WorkflowEnd = {
  /** The conclusions that count for the run. */
  conclusions: Conclusion[]
  jobs: Record<string, { result: JobResult; outputs: Record<string, string> }>
}

export type CallEnd = {
  result: JobResult
  conclusions: Conclusion[]
  outputs: Record<string, string>
}

type Options = {
  run: RunState
  owner: RunningWorkflow
  job: Job
  call: WorkflowCall
  contexts: Contexts
  holds: Holds
  /** Whether jobs of an earlier attempt are reused, so that its `if` has held. */
  isKept: boolean
  runWorkflow: (run: RunState, workflow: RunningWorkflow) => Promise<WorkflowEnd>
}

/** A call that cannot start; the message says why. */
class CallError extends Error {
  override readonly name = 'CallError'
}

/** Runs the workflow that a job calls, once for each combination of its matrix. */
export async function runCalls(options: Options): Promise<CallEnd[]> {
  const { run, job, contexts, holds, isKept } = options
  const unrun = isKept ? undefined : whyUnrun(run, holds)
  if (unrun) return [await endUnrun(options, unrun)]
  let expanded: ExpandedJobs
  try {
    expanded = expandJob(run, job, contexts)
  } catch (error) {
    return [await endUnrun(options, { conclusion: 'failure', fault: toFault(error) })]
  }
  const { drafts, ...strategy } = expanded
  const runInMatrix = createMatrix({ run, holds, ...strategy })
  return Promise.all(
    drafts.map((draft) =>
      runInMatrix(
        draft.name,
        (part) => runWhenFree(options, draft, part),
        (end) => end.result,
      ),
    ),
  )
}

type Draft = ExpandedJobs['drafts'][number]

async function runWhenFree(
  options: Options,
  draft: Draft,
  { cancellation, parallelLimit }: MatrixPart,
): Promise<CallEnd> {
  const own = { ...options, run: { ...options.run, cancellation } }
  try {
    using _permit = await parallelLimit.acquire(cancellation.killSignal)
    return await runCall(own, draft)
  } catch (error) {
    if (!cancellation.killSignal.aborted) throw error
    return endUnrun(own, whyCancelled(cancellation))
  }
}

async function runCall(options: Options, { contexts, name }: Draft): Promise<CallEnd> {
  const { run, owner, job, call } = options
  let callee: RunningWorkflow
  try {
    const workflow = run.workflows.get(call.path)
    if (!workflow?.on.call) throw new CallError(`There is no workflow for calls in ./${call.path}.`)
    const callers = [...owner.callers, { id: job.id, name }]
    if (callers.length >= maxCallLevels) throw new CallError(tooManyLevels)
    const permissions = permissionsOf(owner.workflow, job, owner.permissions)
    callee = { ...owner, ...open(options, workflow, contexts), callers, permissions }
  } catch (error) {
    return endUnrun(options, { conclusion: 'failure', fault: toFault(error) })
  }
  const { conclusions, jobs } = await options.runWorkflow(run, callee)
  const result = combineResults(Object.values(jobs).map((one) => one.result))
  try {
    const { github = null, vars = null, inputs = null } = callee.contexts
    const outputs = await evaluateOutputs(run, {
      kind: 'workflow',
      name,
      outputs: callee.workflow.on.call?.outputs ?? {},
      scope: scopeOf({ github, vars, inputs, jobs }),
    })
    return { result, conclusions, outputs }
  } catch (error) {
    const failed = await endUnrun(options, { conclusion: 'failure', fault: toFault(error) })
    return { ...failed, conclusions: [...conclusions, ...failed.conclusions] }
  }
}

/** Evaluates what the call passes on. */
function open(
  { run, owner, job, call }: Options,
  workflow: Workflow,
  contexts: Contexts,
): Pick<RunningWorkflow, 'workflow' | 'contexts' | 'secrets' | 'inheritable' | 'callerNetwork'> {
  const { github = null, vars = null } = owner.contexts
  const scope = scopeOf(contexts)
  const declared = Object.entries(workflow.on.call?.inputs ?? {}).map(
    ([id, input]) => [id, { ...input, default: defaultOf(input, { github, vars }) }] as const,
  )
  const given = Object.entries(call.with).map(
    ([id, value]) => [id, evaluateTree(value, scope)] as const,
  )
  const read = readCallInputs(Object.fromEntries(declared), Object.fromEntries(given))
  if ('faults' in read) {
    throw new CallError(read.faults.map(({ message }) => message).join(' '))
  }
  const passed = secretsOf(run, owner, call, contexts)
  const secrets = stepSecrets(run.plan, passed, workflow)
  const inheritable = listedSecrets(passed, workflow)
  const callerNetwork = jobNetworkOf(owner, job)
  const inner = { github, vars, inputs: read.values, secrets }
  return { workflow, secrets, inheritable, callerNetwork, contexts: inner }
}

function defaultOf(
  { type, default: given }: CallInput,
  contexts: Contexts,
): string | number | boolean | undefined {
  if (given === undefined || typeof given !== 'object') return given
  const scope = scopeOf(contexts)
  if (type === 'string') return evaluateText(given, scope)
  return type === 'number' ? evaluateNumber(given, scope) : evaluateBoolean(given, scope)
}

function secretsOf(
  { masker }: RunState,
  { inheritable }: RunningWorkflow,
  { secrets }: WorkflowCall,
  contexts: Contexts,
): Record<string, string> {
  if (secrets === 'inherit') return inheritable
  // The secrets in the contexts include the token of the calling job.
  const scope = scopeOf(contexts)
  const entries = Object.entries(secrets).map(([id, template]) => {
    const value = evaluateText(template, scope)
    if (template.text.includes('${{') && value !== '') masker.add(value)
    return [id, value] as const
  })
  return Object.fromEntries(entries)
}

/** Reports a call as one job that does not run: there is nothing to run, or what it returns is at fault. */
async function endUnrun({ run, owner, job }: Options, unrun: Unrun): Promise<CallEnd> {
  const { conclusion } = await emitUnrunJob(run, planUnexpanded(run, owner, job), unrun)
  return { result: resultOf(conclusion, false), conclusions: [conclusion], outputs: {} }
}
