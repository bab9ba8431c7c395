import type { Generated, Kysely, Transaction } from 'kysely'

/** All tables. Columns are snake_case in SQL and camelCase here; times are milliseconds since the epoch. */
export type Schema = {
  tokens: TokenRow
  sshKeys: SshKeyRow
  repositories: RepositoryRow
  imports: ImportRow
  protections: ProtectionRow
  collaborators: CollaboratorRow
  pushes: PushRow
  events: EventRow
  marks: MarkRow
  instance: { id: string }
  maintenance: MaintenanceRow
}

/** A connection or a transaction; the caller alone decides what commits together. */
export type Db = Kysely<Schema> | Transaction<Schema>

export type TokenRow = {
  id: string
  name: string
  tokenHash: string
  username: string
  /** Permission names, separated by spaces. */
  permissions: string
  createdAt: number
  expiresAt: number | null
  lastUsedAt: number | null
}

export type SshKeyRow = {
  id: string
  username: string
  name: string
  /** The line of a .pub file, with its comment. */
  publicKey: string
  keyType: string
  /** As `ssh-keygen -lf` prints it; a key is registered once. */
  fingerprint: string
  /** Permission names, separated by spaces. */
  permissions: string
  createdAt: number
  lastUsedAt: number | null
}

export type RepositoryRow = {
  id: string
  name: string
  /** The name in lower case: names are unique without regard to case. */
  nameKey: string
  ownerTokenId: string
  ownerUsername: string
  createdAt: number
  /** A repository that is being imported has no directory yet. */
  state: RepositoryState
}

export type RepositoryState = 'importing' | 'ready'

/** An import that is under way or has failed; one that succeeded leaves its repository alone. */
export type ImportRow = {
  repositoryId: string
  name: string
  nameKey: string
  ownerTokenId: string
  ownerUsername: string
  /** Where it comes from, without credentials. */
  source: string
  /** What it is at; see git/progress.ts. */
  phase: string
  /** In percent of all. */
  progress: number
  faultCode: string | null
  faultDetail: string | null
  startedAt: number
  endedAt: number | null
}

export type ProtectionRow = { repositoryId: string; branch: string; createdAt: number }

export type CollaboratorRow = { repositoryId: string; username: string; createdAt: number }

/** The pushes journal: what a push was allowed to change, and since when it is known what it did change. */
export type PushRow = {
  id: string
  repositoryId: string
  actorId: string
  actorUsername: string
  /** JSON of RefUpdate[]. */
  updates: string
  judgedAt: number
  finishedAt: number | null
}

type EventRow = {
  seq: number
  kind: string
  repositoryId: string | null
  actorId: string
  actorUsername: string
  /** JSON, by kind: see events/events.ts. */
  data: string
  createdAt: number
}

/** What a repository has had of maintenance, and is due for. */
export type MaintenanceRow = {
  repositoryId: string
  /** Pushes since the last maintenance, and when the first of them was counted. */
  pushes: Generated<number>
  pushedAt: number | null
  /** 1 when there may be something to prune: after a push, and while objects wait to be old enough. */
  isUnpruned: Generated<number>
  /** What was asked for and has not been done: an Extent, or nothing. */
  wanted: Generated<string>
  wantedAt: Generated<number>
  /** Who works on it, and until when that is believed. */
  leaseHolder: string | null
  leaseUntil: Generated<number>
  startedAt: Generated<number>
  /** When the last maintenance that succeeded ended, and the last that pruned. */
  finishedAt: number | null
  prunedAt: Generated<number>
  /** JSON of the last one's Report. */
  report: string | null
  /** Failures since the last success, what the last one was, and when the next try may be. */
  failures: Generated<number>
  fault: string | null
  notBefore: Generated<number>
}

/**
 * Single values: `events` counts the event log, `maintenance` what of it maintenance has counted,
 * `initialized` is when the first server started.
 */
type MarkRow = { name: string; value: Generated<number> }
