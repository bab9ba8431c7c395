import type { Json } from '#base/json.ts'
import type { Workspace } from '../sandbox/sandbox.ts'
import type { Scope } from '../workflow-parser/expressions/scope.ts'
import type { Defaults, Job, Step, Template, Workflow } from '../workflow-parser/workflow.ts'
import type { Cancellation } from './cancellation.ts'
import type { Contexts } from './contexts.ts'
import type { JobFiles } from './job-files/job-files.ts'
import type { StepOutput } from './output/step-output.ts'
import type { JobIdentity } from './plan.ts'
import type { PlannedJob } from './planning/plan-job.ts'
import type { PlannedStep, ReportedStep } from './planning/plan-steps.ts'
import type { JobNetworkAccess } from './planning/running-workflow.ts'
import type { CommandSetting, RunState } from './run-state.ts'
import type { StepEnd } from './step-end.ts'

/** A running job, with the state that its steps leave for the following ones. */
export type RunningJob = {
  run: RunState
  workflow: Workflow
  job: Job
  planned: PlannedJob
  workspace: Workspace
  cancellation: Cancellation
  /** The contexts of the job, including `runner`. */
  contexts: Contexts
  /** From the workflow, the job and GITHUB_ENV; later ones override earlier ones. */
  env: Record<string, string>
  /** From GITHUB_PATH, the last added first. */
  addedPath: string[]
  secrets: Record<string, string>
  identity: JobIdentity | undefined
  network: JobNetworkAccess
  /** Whether the workspace has the commit of the run from the start. */
  hasFiles: boolean
  /** Where steps have checked out, as in `Checkout`. */
  checkedOut: Set<string>
  /** Characters that steps may still set in variables, PATH folders and outputs. */
  lengthLeft: number
  files: JobFiles
  /** The setting of the last command, and of that which made the job fail. */
  lastSetting: CommandSetting | undefined
  failedSetting: CommandSetting | undefined
  /** State that the programs of an action share. */
  states: Map<PlannedStep, Record<string, string>>
  /** In the order in which they were added. */
  postSteps: PostStep[]
}

/** The steps of a job or of a composite action, which share the `steps` context. */
export type StepList = {
  /** The names of the steps that use the action, outermost first. */
  names: readonly string[]
  /** The `steps` context. */
  results: Record<string, Json>
  /** The conclusion of the first failed step. */
  failed: 'failure' | 'timed_out' | undefined
  /** Ends the steps whose condition does not hold after a cancellation. */
  cancelSignal: AbortSignal
  /** Ends all steps. */
  killSignal: AbortSignal
  /** The environment of the steps that use the action. */
  env: Record<string, string>
  inputs: Json
  /** The folder of the action, as its steps see it. */
  actionPath: string | undefined
  /** The `defaults`, in order of precedence. */
  defaults: Defaults[]
  /** Whether an outer step has `continue-on-error`, so that failures count as success in the run. */
  continuesOnError: boolean
}

/** A step that has started. */
export type RunningStep = {
  running: RunningJob
  /** The steps among which it is. */
  list: StepList
  /** Its number in the run. */
  number: number
  /** Its environment, and that of the actions around it. */
  env: Record<string, string>
  scope: Scope
  /** Ends it. */
  signal: AbortSignal
  output: StepOutput
}

/** A step before or after the steps of a job, on behalf of one of them. */
export type HookStep = {
  step: Step
  /** The steps among which the step is. */
  list: StepList
  condition: Template
  run: (step: RunningStep) => Promise<StepEnd>
}

/** A step for the end of the job. Of several with the same key, the last one counts. */
export type PostStep = HookStep & { key: unknown; reported: ReportedStep }

type Effects = {
  env: Record<string, string>
  path: readonly string[]
  outputs?: Record<string, string>
  state?: Record<string, string>
}

/** Applies what a step leaves to the following steps. Throws when those of the job have left too much in total. */
export function applyEffects(running: RunningJob, effects: Effects): void {
  running.lengthLeft -= JSON.stringify(Object.values(effects)).length
  if (running.lengthLeft < 0) {
    throw new Error('The steps of the job set too many variables and outputs.')
  }
  Object.assign(running.env, effects.env)
  running.addedPath.unshift(...effects.path)
}

/** The scope of a step's expressions, for evaluation by `running.files`. `env` includes the variables of the step once they are evaluated. */
export function stepScope(
  running: RunningJob,
  list: StepList,
  step: Step,
  env: Record<string, string>,
): Scope {
  const { cancelSignal } = running.cancellation
  const isCancelled = list.cancelSignal.aborted
  const status = {
    success: !list.failed && !isCancelled,
    failure: list.failed !== undefined && !isCancelled,
    cancelled: cancelSignal.aborted,
  }
  return {
    contexts: {
      ...running.contexts,
      github: githubOf(running, list, step),
      env,
      steps: list.results,
      inputs: list.inputs,
      job: { status: statusOf(running, list) },
    },
    status,
    hashFiles: running.files.hashFiles,
  }
}

function statusOf({ cancellation }: RunningJob, { failed }: StepList): string {
  if (cancellation.cancelSignal.aborted) return 'cancelled'
  return failed ? 'failure' : 'success'
}

/** The `github` context of a step. */
export function githubOf(running: RunningJob, list: StepList, step: Step): Record<string, Json> {
  const { workspace, files } = running.workspace.inside
  // It is always an object in the contexts of a job.
  const github = running.contexts.github as Record<string, Json>
  return {
    ...github,
    job: running.job.id,
    workspace,
    event_path: `${files}/event.json`,
    action: step.id ?? (step.kind === 'run' ? '__run' : '__self'),
    ...(list.actionPath !== undefined && {
      action_path: list.actionPath,
      action_status: statusOf(running, list),
    }),
  }
}
