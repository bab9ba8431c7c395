import type { Semaphore } from '#base/concurrency/semaphore.ts'
import type { Sandbox, Workspace, WorkspaceCommand } from '../sandbox/sandbox.ts'
import type { Masker } from '../secret-masking/masker.ts'
import type { Action, Workflow } from '../workflow-parser/workflow.ts'
import type { Cancellation } from './cancellation.ts'
import type { RunnerContext } from './contexts.ts'
import type { AnnotationLimits } from './output/annotations.ts'
import type { Emit } from './output/entry-emitter.ts'
import type { Plan } from './plan.ts'
import type { RunStorage } from './run-storage.ts'

/** How a command of a step runs: its variables, its directory and its network. */
export type CommandSetting = Pick<WorkspaceCommand, 'env' | 'cwd' | 'network'>

/** The workspace of a failed job, after all its steps. */
export type FailedWorkspace = {
  /** The name of the job, masked. */
  job: string
  workspace: Workspace
  /** The setting of the command that failed. */
  setting: CommandSetting
}

/** Takes the workspace of a failed job. Returns whether it keeps it, and so disposes it later. Never rejects. */
export type KeepFailed = (failed: FailedWorkspace) => Promise<boolean>

/** Checks out the files of the run's commit into a new workspace. Rejects with an error text for users. */
export type CheckOut = (workspace: Workspace, signal: AbortSignal) => Promise<void>

/** The commits that a checkout gets from the repository of the run. */
export type SourceRequest = {
  /** A branch, a tag, the full name of one of these, or the id of a commit; undefined for the commit of the run. */
  ref: string | undefined
  /** The number of commits from there on; 0 for all, with all branches and tags. */
  depth: number
  /** Whether all tags are added. */
  tags: boolean
}

/** A checkout by a step. */
export type Checkout = {
  source: SourceRequest
  /** Relative to the workspace; empty for its top. */
  folder: string
  /** `keep` leaves the files as they are, `replace` removes all that are not of the commit, `add` only those in its way. */
  files: 'keep' | 'replace' | 'add'
}

/**
 * Checks out what a step asks for, in a workspace where steps have run. Returns the commit, and the full name of its ref,
 * empty if an id was given. Rejects with an error text for users.
 */
export type CheckOutAgain = (
  workspace: Workspace,
  checkout: Checkout,
  signal: AbortSignal,
) => Promise<{ commit: string; ref: string }>

/** The state that all parts of a run share. */
export type RunState = {
  plan: Plan
  sandbox: Sandbox
  runner: RunnerContext
  jobLimit: Semaphore
  checkOut: CheckOut
  checkOutAgain: CheckOutAgain
  storage: RunStorage
  keepFailed?: KeepFailed
  masker: Masker
  emit: Emit
  /** Keyed by folder. */
  actions: ReadonlyMap<string, Action>
  /** The workflows that jobs can call, keyed by path. */
  workflows: ReadonlyMap<string, Workflow>
  cancellation: Cancellation
  /** Throws when the run would have too many jobs or steps. */
  assertWithinLimits: (jobs: number, steps: number) => void
  annotationLimits: AnnotationLimits
  nextJob: () => number
  nextStep: () => number
  now: () => number
}
