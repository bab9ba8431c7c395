import type { Json } from '#base/json.ts'
import type { Workspace } from '../sandbox/sandbox.ts'
import { writeFresh } from '../sandbox/workspace-files.ts'
import { evaluateTree } from '../workflow-parser/expressions/evaluate.ts'
import { isBuiltInLabel } from '../workflow-parser/runner-labels.ts'
import type { Job } from '../workflow-parser/workflow.ts'
import { afterTime, type Cancellation, createCancellation, onAbort } from './cancellation.ts'
import { leavesTopEmpty } from './check-out-step.ts'
import { type Contexts, runnerContext, scopeOf } from './contexts.ts'
import { createJobFiles, type JobFiles } from './job-files/job-files.ts'
import type { Conclusion } from './plan.ts'
import {
  evaluateEnvironment,
  evaluateNumber,
  evaluateOutputs,
} from './planning/evaluate-settings.ts'
import { isFailure } from './planning/job-graph.ts'
import type { PlannedJob } from './planning/plan-job.ts'
import { type PlannedStep, preStepsOf } from './planning/plan-steps.ts'
import {
  identityOf,
  jobNetworkOf,
  networkAccessOf,
  type RunningWorkflow,
} from './planning/running-workflow.ts'
import { runHook, runPostSteps } from './post-steps.ts'
import { hookCondition, registerPost, runProgram } from './run-program.ts'
import type { CommandSetting, RunState } from './run-state.ts'
import { runSteps } from './run-steps.ts'
import type { RunningJob, StepList } from './running-job.ts'
import { durationInWords, toFault } from './step-end.ts'

type RunOptions = {
  run: RunState
  owner: RunningWorkflow
  job: Job
  planned: PlannedJob
  cancellation: Cancellation
}

export type JobEnd = { conclusion: Conclusion; outputs: Record<string, string>; fault: string }

const minuteMs = 60_000
/** Characters of variables, PATH folders and outputs that the steps of a job may set in total. */
const stepStateMaxLength = 8 * 1024 ** 2

/** Runs a job in its own workspace. Never rejects: every error becomes a conclusion. */
export async function executeJob(options: RunOptions): Promise<JobEnd> {
  const { run, job, planned, cancellation } = options
  try {
    const scope = scopeOf(planned.contexts)
    assertLabels(job, evaluateTree(job.runsOn ?? null, scope), run.runner.labels)
    const minutes = evaluateNumber(job.timeoutMinutes, scope)
    using _timer =
      minutes === undefined
        ? undefined
        : afterTime(minutes * minuteMs, () => {
            const text = `The job exceeded its time limit of ${durationInWords(minutes * minuteMs)}.`
            cancellation.cancel({ conclusion: 'timed_out', text })
          })
    await using owned = new AsyncDisposableStack()
    const workspace = owned.use(disposeOnce(await run.sandbox.openWorkspace()))
    // Disposing the workspace kills the processes in it.
    using _killListener = onAbort(cancellation.killSignal, () => void disposeQuietly(workspace))
    await using files = createJobFiles(workspace, cancellation.killSignal)
    const { end, setting } = await runInWorkspace(options, workspace, files)
    if (setting && isFailure(end.conclusion) && !cancellation.killSignal.aborted) {
      const failed = { job: run.masker.mask(planned.name), workspace, setting }
      if (await run.keepFailed?.(failed)) owned.move()
    }
    return end
  } catch (error) {
    const why = cancellation.why()
    if (cancellation.cancelSignal.aborted && why)
      return { conclusion: why.conclusion, outputs: {}, fault: why.text }
    return { conclusion: 'failure', outputs: {}, fault: toFault(error) }
  }
}

async function runInWorkspace(
  { run, owner, job, planned, cancellation }: RunOptions,
  workspace: Workspace,
  files: JobFiles,
): Promise<{ end: JobEnd; setting: CommandSetting | undefined }> {
  const { workflow, secrets } = owner
  const contexts = inWorkspace(planned.contexts, run, workspace)
  const workflowEnv = evaluateEnvironment(workflow.env, scopeOf(contexts))
  const jobEnv = evaluateEnvironment(job.env, scopeOf({ ...contexts, env: workflowEnv }))
  const running: RunningJob = {
    run,
    workflow,
    job,
    planned,
    workspace,
    cancellation,
    contexts,
    env: { ...workflowEnv, ...jobEnv },
    addedPath: [],
    secrets,
    identity: identityOf(run.plan, owner, job),
    network: networkAccessOf(run.sandbox, jobNetworkOf(owner, job)),
    hasFiles: !leavesTopEmpty(planned.steps),
    checkedOut: new Set(),
    lengthLeft: stepStateMaxLength,
    files,
    lastSetting: undefined,
    failedSetting: undefined,
    states: new Map(),
    postSteps: [],
  }
  const list: StepList = {
    names: [],
    results: {},
    failed: undefined,
    cancelSignal: cancellation.cancelSignal,
    killSignal: cancellation.killSignal,
    env: {},
    inputs: contexts.inputs ?? {},
    actionPath: undefined,
    defaults: [job.defaults, workflow.defaults],
    continuesOnError: false,
  }
  writeFresh(`${workspace.outside.files}/event.json`, Buffer.from(JSON.stringify(run.plan.payload)))
  if (running.hasFiles) await run.checkOut(workspace, cancellation.cancelSignal)
  await runPreSteps(running, list, planned.steps)
  await runSteps(running, list, planned.steps)
  await runPostSteps(running, list)
  const why = cancellation.why()
  const conclusion = why?.conclusion ?? list.failed ?? 'success'
  const outputs = await evaluateOutputs(run, {
    kind: 'job',
    name: planned.name,
    outputs: job.outputs,
    scope: scopeOf({ ...contexts, env: running.env, steps: list.results }),
  })
  const end: JobEnd = { conclusion, outputs, fault: why?.text ?? '' }
  return { end, setting: running.failedSetting }
}

/** The contexts of a job that has a workspace, which its `env` can name. */
function inWorkspace(planned: Contexts, run: RunState, workspace: Workspace): Contexts {
  // It is always an object in the contexts of a job.
  const github = planned.github as Record<string, Json>
  return {
    ...planned,
    github: { ...github, workspace: workspace.inside.workspace },
    runner: runnerContext(run.runner, workspace),
  }
}

function disposeOnce(workspace: Workspace): Workspace {
  let disposal: Promise<void> | undefined
  return {
    ...workspace,
    [Symbol.asyncDispose]: () => (disposal ??= Promise.resolve(workspace[Symbol.asyncDispose]())),
  }
}

async function disposeQuietly(workspace: Workspace): Promise<void> {
  try {
    await workspace[Symbol.asyncDispose]()
  } catch {
    // The final disposal in `executeJob` reports the same error.
  }
}

/** Creates the cancellation of a job, which follows that of its run; `holds` says whether the job outlives the run's. */
export function createJobCancellation(run: RunState, holds: () => boolean): Cancellation {
  const cancellation = createCancellation()
  const { cancellation: outer } = run
  const why = () => outer.why() ?? ({ conclusion: 'cancelled', text: '' } as const)
  const onKill = onAbort(outer.killSignal, () => cancellation.kill(why()))
  const onCancel = onAbort(outer.cancelSignal, () => {
    if (!holds()) cancellation.cancel(why())
  })
  return {
    ...cancellation,
    [Symbol.dispose]() {
      onKill[Symbol.dispose]()
      onCancel[Symbol.dispose]()
      cancellation[Symbol.dispose]()
    },
  }
}

function assertLabels({ id }: Job, runsOn: Json, labels: readonly string[]): void {
  const required = (Array.isArray(runsOn) ? runsOn : [runsOn]).filter((label) => label !== null)
  for (const label of required) {
    const name = String(label)
    if (isBuiltInLabel(name) || labels.some((one) => one.toLowerCase() === name.toLowerCase())) {
      continue
    }
    const known = labels.length > 0 ? `has ${labels.join(', ')}` : 'has no other labels'
    throw new Error(
      `runs-on of ${id}: this runner does not have the label ${name}; it ${known}. Every runner accepts ubuntu-latest.`,
    )
  }
}

/** Runs the `pre` programs of actions. Their inputs cannot refer to the results of steps. */
async function runPreSteps(
  running: RunningJob,
  list: StepList,
  steps: readonly PlannedStep[],
): Promise<void> {
  for (const { planned, pre } of preStepsOf(steps)) {
    const { pre: hook } = planned.program
    if (!hook) continue
    // Within a composite action, whose inputs are not known yet.
    const around = steps.includes(planned) ? list : { ...list, inputs: {} }
    const conclusion = await runHook(running, pre, {
      step: planned.step,
      list: around,
      condition: hookCondition(hook, planned.step),
      run: async (options) => {
        await registerPost({ running, list: around, planned }, planned.name)
        return runProgram({ ...options, planned, file: hook.file })
      },
    })
    if (isFailure(conclusion)) list.failed ??= conclusion
  }
}
