import type { Slots } from '../concurrency/semaphore.ts'
import type { Room, Sandbox } from '../sandbox/sandbox.ts'
import type { Masker } from '../secret-masking/masker.ts'
import type { Action } from '../workflow-parser/workflow.ts'
import type { Ending } from './cancellation.ts'
import type { Runner } from './contexts.ts'
import type { Tell } from './entry-emitter.ts'
import type { Plan } from './plan.ts'

/** Puts the files of the run's commit into a room's workspace; rejects when it cannot, with a text for people. */
export type CheckOut = (room: Room, signal: AbortSignal) => Promise<void>

/** What all parts of a run share. */
export type RunState = {
  plan: Plan
  sandbox: Sandbox
  runner: Runner
  slots: Slots
  checkOut: CheckOut
  masker: Masker
  tell: Tell
  /** By their folders. */
  actions: ReadonlyMap<string, Action>
  ending: Ending
  /** Throws when a run would get too many jobs or steps. */
  assertRoomFor: (jobs: number, steps: number) => void
  nextJob: () => number
  nextStep: () => number
  now: () => number
}
