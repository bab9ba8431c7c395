import type { Json } from '#base/json.ts'
import type { JobPermissions, SourceFile } from '../workflow-parser/workflow.ts'

/** Everything needed to execute a run, except the files of its commit. */
export type Plan = {
  runId: string
  attempt: number
  /** The number of the run in its repository, from 1. */
  number: number
  repository: { name: string; owner: string; defaultBranch: string }
  /** The public address of the service. */
  serverUrl: string
  event: TriggerKind
  /** The full ref, `refs/heads/main`, and the commit that it pointed to. */
  ref: string
  commit: string
  /** The user who started the first attempt, and the one who started this attempt. */
  actor: string
  triggeringActor: string
  inputs: Record<string, string | number | boolean>
  /** GitHub's payload of the event: `github.event`, and the file at GITHUB_EVENT_PATH. */
  payload: { [key: string]: Json }
  /** The workflow files, in order, and the action files and other workflows that they use. */
  files: SourceFile[]
  actions: SourceFile[]
  called: SourceFile[]
  secrets: Record<string, string>
  /** The credentials of jobs; none where a run has no server. */
  identities: JobIdentity[]
  /** Jobs of the previous attempt that are reused. */
  kept: ReusedJob[]
  limits: PlanLimits
}

/** The credentials of the jobs of a file that have the same permissions. */
export type JobIdentity = {
  /** The file of the run, and the file of the jobs, which may be one that it calls. */
  file: string
  jobFile: string
  permissions: JobPermissions
  /** The token for the API and Git: `github.token`. */
  token: string
  /** Where and with which token steps request ID tokens; null without `id-token: write`. */
  idTokens: { url: string; token: string } | null
}

/** The events that start runs. */
export const triggerKinds = [
  'push',
  'pull_request',
  'merge_group',
  'workflow_dispatch',
  'schedule',
] as const

export type TriggerKind = (typeof triggerKinds)[number]

export type PlanLimits = {
  /** Limits of the whole run and of each step. */
  runTimeoutMs: number
  stepTimeoutMs: number
  /** Bytes of a step's output that are kept: its head and its tail. */
  outputMaxBytes: number
}

/** A job of an earlier attempt that is not run again. */
export type ReusedJob = {
  file: string
  id: string
  name: string
  conclusion: Conclusion
  outputs: Record<string, string>
  /** The values of its matrix in the format of toJSON(); empty without a matrix. */
  matrix: string
}

export type Conclusion = 'success' | 'failure' | 'cancelled' | 'timed_out' | 'skipped'

/** An entry of the report of a run, in order. All texts are masked. Times are milliseconds since the epoch. */
export type RunEntry =
  /** The isolation of the steps. */
  | { kind: 'isolation'; isolation: string; description: string }
  /** `job` counts the jobs of the run from 0. */
  | {
      kind: 'job-planned'
      job: number
      file: string
      workflow: string
      id: string
      name: string
      matrix: string
    }
  | { kind: 'job-started'; job: number; at: number }
  | {
      kind: 'job-ended'
      job: number
      at: number
      conclusion: Conclusion
      outputs: Record<string, string>
      /** The reason, if the job did not fail because of a step; else empty. */
      fault: string
      /** Set if it failed, and the run goes on: `continue-on-error`. */
      isTolerated?: true
    }
  /** `step` counts the steps of the run from 0, in the order of planning. Steps of composite actions count separately. */
  | { kind: 'step-planned'; job: number; step: number; name: string }
  | {
      kind: 'step-started'
      step: number
      at: number
      /** The name, if it was not known when the step was planned. */
      name?: string
    }
  | {
      kind: 'step-ended'
      step: number
      at: number
      conclusion: Conclusion
      /** Null when the process was killed, or there was none. */
      exitCode: number | null
      fault: string
      /** The content of $GITHUB_STEP_SUMMARY: Markdown. */
      summary: string
    }
  /** An error, a warning or a notice of a step. */
  | ({ kind: 'annotation'; step: number } & Annotation)
  /** Whole lines of a step's output, or lines of the run itself when `step` is null. */
  | { kind: 'output'; step: number | null; text: string }
  | { kind: 'run-ended'; at: number; conclusion: Exclude<Conclusion, 'skipped'>; fault: string }

/** An error, a warning or a notice of a step, about a file of the commit or in general. */
export type Annotation = {
  level: 'error' | 'warning' | 'notice'
  /** From the top of the repository; empty for none. */
  file: string
  /** From 1. The last line is set together with the first. */
  line: number | null
  endLine: number | null
  /** From 1. */
  column: number | null
  endColumn: number | null
  title: string
  message: string
}
