import type { Masker } from '../masking/masker.ts'
import type { Room, Sandbox } from '../sandbox/sandbox.ts'
import type { Action } from '../workflow-syntax/workflow.ts'
import type { Runner } from './contexts.ts'
import type { Ending } from './ending.ts'
import type { Plan } from './plan.ts'
import type { Slots } from './slots.ts'
import type { Tell } from './teller.ts'

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
