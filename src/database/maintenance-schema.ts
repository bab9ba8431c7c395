import type { Generated } from 'kysely'

/** The state of maintenance of a repository. */
export type MaintenanceRow = {
  repositoryId: string
  /** Pushes since the last maintenance, and when the first of them was counted. */
  pushes: Generated<number>
  pushedAt: number | null
  /** 1 when there may be objects to prune: after a push, and while unreachable objects are too young. */
  isUnpruned: Generated<number>
  /** The extent that was requested and has not run yet; empty when there is none. */
  wanted: Generated<string>
  wantedAt: Generated<number>
  /** The lease owner, and when the lease ends. */
  leaseHolder: string | null
  leaseUntil: Generated<number>
  startedAt: Generated<number>
  /** When the last successful maintenance ended, and the last one that pruned. */
  finishedAt: number | null
  prunedAt: Generated<number>
  /** JSON of the report of the last successful maintenance. */
  report: string | null
  /** Failures since the last success, the last error, and when to try again. */
  failures: Generated<number>
  fault: string | null
  notBefore: Generated<number>
}
