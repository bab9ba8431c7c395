import type { Workspace } from '../sandbox/sandbox.ts'
import type { Json, Scope } from '../workflow-parser/scope.ts'
import type { Defaults, Job, Step, Workflow } from '../workflow-parser/workflow.ts'
import type { Cancellation } from './cancellation.ts'
import type { Contexts } from './contexts.ts'
import type { PlannedJob } from './plan-job.ts'
import type { RunState } from './run-state.ts'

/** A job in its room. What steps leave for those after them is kept here. */
export type RunningJob = {
  run: RunState
  workflow: Workflow
  job: Job
  planned: PlannedJob
  room: Workspace
  ending: Cancellation
  /** Its own contexts, with `runner`. */
  contexts: Contexts
  /** Of the workflow, the job and GITHUB_ENV; the later over the earlier. */
  env: Record<string, string>
  /** Of GITHUB_PATH, what was put there last first. */
  addedPath: string[]
  secrets: Record<string, string>
  /** What steps may still leave in variables, folders and outputs, in characters. */
  lengthLeft: number
  hashFiles: Scope['hashFiles']
}

/** Steps that follow each other and know each other: those of a job, or of a composite action. */
export type StepList = {
  /** What the steps that use the action are called. */
  names: readonly string[]
  /** What is `steps` to them. */
  results: Record<string, Json>
  /** How the first step that failed did. */
  failed: 'failure' | 'timed_out' | undefined
  /** Ends those that do not ask to run in spite of it. */
  soft: AbortSignal
  /** Ends all of them. */
  hard: AbortSignal
  /** Of the steps that use the action. */
  env: Record<string, string>
  inputs: Json
  /** The folder of the action inside the room. */
  actionPath: string | undefined
  /** What holds where a step says nothing. */
  defaults: Defaults[]
  /** Whether a failure is passed over further out, so that it is none for those who look at the run. */
  isPassedOver: boolean
}

/** What expressions of a step see. `env` has those of the step itself, once they are known. */
export function stepScope(
  running: RunningJob,
  list: StepList,
  step: Step,
  env: Record<string, string>,
): Scope {
  const { soft } = running.ending
  const isStopped = list.soft.aborted
  const status = {
    success: !list.failed && !isStopped,
    failure: list.failed !== undefined && !isStopped,
    cancelled: soft.aborted,
  }
  return {
    contexts: {
      ...running.contexts,
      github: githubOf(running, list, step),
      env,
      steps: list.results,
      inputs: list.inputs,
      job: { status: soft.aborted ? 'cancelled' : list.failed ? 'failure' : 'success' },
    },
    status,
    hashFiles: running.hashFiles,
  }
}

/** `github` of a step. */
export function githubOf(running: RunningJob, list: StepList, step: Step): Record<string, Json> {
  const { workspace, files } = running.room.inside
  // The contexts of a job always have it as an object.
  const github = running.contexts.github as Record<string, Json>
  return {
    ...github,
    job: running.job.id,
    workspace,
    event_path: `${files}/event.json`,
    action: step.id ?? (step.kind === 'run' ? '__run' : '__self'),
    ...(list.actionPath === undefined ? {} : { action_path: list.actionPath }),
  }
}
