import type { Generated, Insertable, Selectable } from 'kysely'

/** The ways to change refs. */
export type Via = 'http' | 'ssh' | 'api' | 'undo'

/** The journal of pushes: the updates that were authorized and, once finalized, those that took effect. */
export type PushRow = Selectable<PushTable>
export type NewPush = Insertable<PushTable>

export type PushTable = {
  id: string
  repositoryId: string
  actorId: string
  actorUsername: string
  /** JSON of IntendedUpdate[]; once the push is finalized, of the updates that took effect, as PushedUpdate[]. */
  updates: string
  judgedAt: number
  finishedAt: number | null
  /** Its transport; empty for a default branch that was set through the API, and for rows from before it was recorded. */
  via: Via | ''
  /** Until when the commits that it overwrote are retained; null when there are none. */
  keptUntil: number | null
  /** The push that was undone by this one. */
  undoes: string | null
  /** The previous default branch; null when it does not change. */
  formerDefaultBranch: string | null
  /** The new default branch; null when it does not change. */
  defaultBranch: string | null
  /** In a shared store: the version of the repository that it made. */
  version: Generated<number | null>
  /** The client's address. */
  address: Generated<string | null>
  /** JSON of AllowedLeak[]; null when there are none. */
  allowedLeaks: Generated<string | null>
  /** JSON of PushRunOptions; null when the push says nothing about its runs. */
  runOptions: Generated<string | null>
}

/** Finds the options of a push for its runs. */
export type PushRunOptions = {
  /** Whether it starts none. */
  isSkipped?: true
  /** Values for the inputs of its workflows. */
  inputs?: Record<string, string>
  /** The runs that it has waited for, which it does not start again. */
  awaited?: AwaitedRun[]
}

/** The run of a workflow file for a ref. */
export type AwaitedRun = { ref: string; file: string }
