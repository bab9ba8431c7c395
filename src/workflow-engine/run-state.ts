import type { Semaphore } from '../concurrency/semaphore.ts'
import type { Sandbox, Workspace } from '../sandbox/sandbox.ts'
import type { Masker } from '../secret-masking/masker.ts'
import type { Action } from '../workflow-parser/workflow.ts'
import type { Cancellation } from './cancellation.ts'
import type { RunnerContext } from './contexts.ts'
import type { Emit } from './entry-emitter.ts'
import type { Plan } from './plan.ts'

/** Puts the files of the run's commit into a room's workspace; rejects when it cannot, with a text for people. */
export type CheckOut = (room: Workspace, signal: AbortSignal) => Promise<void>

/** What all parts of a run share. */
export type RunState = {
  plan: Plan
  sandbox: Sandbox
  runner: RunnerContext
  slots: Semaphore
  checkOut: CheckOut
  masker: Masker
  emit: Emit
  /** By their folders. */
  actions: ReadonlyMap<string, Action>
  ending: Cancellation
  /** Throws when a run would get too many jobs or steps. */
  assertRoomFor: (jobs: number, steps: number) => void
  nextJob: () => number
  nextStep: () => number
  now: () => number
}
