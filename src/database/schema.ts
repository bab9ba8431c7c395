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

/** Single values: `events` counts the event log, `initialized` is when the first server started. */
type MarkRow = { name: string; value: Generated<number> }
