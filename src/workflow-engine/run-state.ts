import type { Semaphore } from '../concurrency/semaphore.ts'
import type { Sandbox, Workspace } from '../sandbox/sandbox.ts'
import type { Masker } from '../secret-masking/masker.ts'
import type { Action, Workflow } from '../workflow-parser/workflow.ts'
import type { AnnotationLimits } from './annotations.ts'
import type { Cancellation } from './cancellation.ts'
import type { RunnerContext } from './contexts.ts'
import type { Emit } from './entry-emitter.ts'
import type { KeepFailed } from './failed-workspace.ts'
import type { Plan } from './plan.ts'
import type { RunStorage } from './run-storage.ts'

/** Checks out the files of the run's commit into a workspace. Rejects with an error text for users. */
export type CheckOut = (workspace: Workspace, signal: AbortSignal) => Promise<void>

/** The state that all parts of a run share. */
export type RunState = {
  plan: Plan
  sandbox: Sandbox
  runner: RunnerContext
  jobLimit: Semaphore
  checkOut: CheckOut
  storage: RunStorage
  keepFailed?: KeepFailed
  masker: Masker
  emit: Emit
  /** Keyed by folder. */
  actions: ReadonlyMap<string, Action>
  /** Those that jobs can call, keyed by path. */
  workflows: ReadonlyMap<string, Workflow>
  cancellation: Cancellation
  /** Throws when the run would have too many jobs or steps. */
  assertWithinLimits: (jobs: number, steps: number) => void
  annotationLimits: AnnotationLimits
  nextJob: () => number
  nextStep: () => number
  now: () => number
}
