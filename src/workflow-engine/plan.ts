import type { Json } from '../workflow-parser/scope.ts'
import type { SourceFile } from '../workflow-parser/workflow.ts'

/** All that is needed to execute a run, but its commit's files. */
export type Plan = {
  runId: string
  attempt: number
  /** Counts the runs of the repository from 1. */
  number: number
  repository: { name: string; owner: string; defaultBranch: string }
  /** The public address of the service. */
  serverUrl: string
  event: TriggerKind
  /** The full ref, `refs/heads/main`, and the commit that it pointed to. */
  ref: string
  commit: string
  /** Who started it first, and whose doing this attempt is. */
  actor: string
  triggeringActor: string
  inputs: Record<string, string | number | boolean>
  /** What is `github.event` to expressions and the file at GITHUB_EVENT_PATH: GitHub's payload of that event. */
  payload: { [key: string]: Json }
  /** The workflow files, in order, and the action files that they use. */
  files: SourceFile[]
  actions: SourceFile[]
  secrets: Record<string, string>
  /** Jobs of the earlier attempt that stay as they were. */
  kept: ReusedJob[]
  limits: PlanLimits
}

export type TriggerKind = 'push' | 'workflow_dispatch' | 'schedule'

export type PlanLimits = {
  /** Of the whole run, and of a step that says nothing of its own. */
  runTimeoutMs: number
  stepTimeoutMs: number
  /** Bytes of one step's output that are kept: the head and the tail. */
  outputMaxBytes: number
}

/** A job of an earlier attempt that is not run again. */
export type ReusedJob = {
  file: string
  id: string
  name: string
  conclusion: Conclusion
  outputs: Record<string, string>
  /** The values of its matrix, in the words of toJSON; empty without one. */
  matrix: string
}

export type Conclusion = 'success' | 'failure' | 'cancelled' | 'timed_out' | 'skipped'

/** What a run tells as it goes, in order. All texts are masked. Times are milliseconds since the epoch. */
export type RunEntry =
  /** What isolation its steps have. */
  | { kind: 'isolation'; isolation: string; description: string }
  /** A job is known, with its steps; `job` counts those of the run from 0. */
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
      /** Why, where no step tells; empty otherwise. */
      fault: string
    }
  /** `step` counts the steps of the run from 0, in the order in which they become known. Those of a composite action are steps of their own. */
  | { kind: 'step-planned'; job: number; step: number; name: string }
  | {
      kind: 'step-started'
      step: number
      at: number
      /** What it is called, where that was not known when it was planned. */
      name?: string
    }
  | {
      kind: 'step-ended'
      step: number
      at: number
      conclusion: Conclusion
      /** Null when it was ended, or there was no process. */
      exitCode: number | null
      fault: string
      /** What it wrote to $GITHUB_STEP_SUMMARY: Markdown. */
      summary: string
    }
  /** Whole lines of a step's output, or of the run's own words when `step` is null. */
  | { kind: 'output'; step: number | null; text: string }
  | { kind: 'run-ended'; at: number; conclusion: Exclude<Conclusion, 'skipped'>; fault: string }
