import type { Generated, Kysely, Selectable, Transaction } from 'kysely'

/** All tables. Columns are snake_case in SQL and camelCase here; times are milliseconds since the epoch. */
export type Schema = {
  tokens: TokenRow
  sshKeys: SshKeyRow
  repositories: RepositoryRow
  imports: ImportRow
  protections: ProtectionRow
  collaborators: CollaboratorRow
  secrets: SecretRow
  pushes: PushRow
  events: EventRow
  marks: MarkRow
  instance: { id: string }
  maintenance: MaintenanceRow
  runs: RunTable
  runNumbers: { repositoryId: string; last: number }
  runGroups: { runId: string; name: string }
  runAttempts: RunAttemptRow
  runJobs: RunJobRow
  runSteps: RunStepRow
  runLogs: RunLogRow
  schedules: ScheduleRow
  webhooks: WebhookTable
  webhookSecrets: WebhookSecretRow
  deliveries: DeliveryTable
  deliveryBodies: { deliveryId: string; body: string }
  deliveryAttempts: DeliveryAttemptRow
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
  expiresAt: number | null
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
  /** What it is at; see git/import/progress.ts. */
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

/** A secret, which only its key opens: see vault/vault.ts. */
export type SecretRow = {
  id: string
  repositoryId: string
  name: string
  sealedValue: Uint8Array
  /** The id of its key, in hex. */
  keyId: string
  createdAt: number
  /** When its value was last set; sealing it anew is no change. */
  updatedAt: number
}

/** The ways to change refs. */
export type Via = 'http' | 'ssh' | 'undo'

/** The pushes journal: what a push was allowed to change, and since when it is known what it did change. */
export type PushRow = {
  id: string
  repositoryId: string
  actorId: string
  actorUsername: string
  /** JSON of RefUpdate[]; once it is finished, of those that came to pass, as PushedUpdate[]. */
  updates: string
  judgedAt: number
  finishedAt: number | null
  /** Which way it came; empty where it was not written down yet. */
  via: Via | ''
  /** Until when the tips that it overwrote are kept; null when there are none, or none any more. */
  keptUntil: number | null
  /** The push that was undone by this one. */
  undoes: string | null
  /** What the default branch was; null when it stays. */
  formerDefaultBranch: string | null
  /** What the default branch is to become. */
  defaultBranch: string | null
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

type RunStatus = 'queued' | 'running' | 'completed'
export type RunConclusion = 'success' | 'failure' | 'cancelled' | 'timed_out'
type RunEvent = 'push' | 'workflow_dispatch' | 'schedule'

/** A run of workflows, in its present attempt; while it is queued or running, also its place in the queue. */
type RunTable = {
  id: string
  repositoryId: string
  /** Counts the runs of a repository from 1. */
  number: number
  name: string
  branch: string
  ref: string
  commitId: string
  event: RunEvent
  /** JSON: GitHub's payload of the event. */
  payload: string
  /** JSON: by name. */
  inputs: string
  /** JSON: paths of the workflow files, in order. */
  files: string
  /** JSON: the files and the actions that they use, as the commit has them. */
  sources: string
  /** JSON: labels that its runner must have. */
  labels: string
  /** JSON: the secrets that its files name; null when one of them takes all. */
  secretNames: string | null
  actorId: string
  actorUsername: string
  status: RunStatus
  conclusion: RunConclusion | null
  fault: Generated<string>
  attempt: Generated<number>
  createdAt: number
  queuedAt: number
  startedAt: number | null
  completedAt: number | null
  isolation: Generated<string>
  /** Why it is to end; null while it is not. */
  cancelReason: string | null
  cancelledAt: number | null
  /** Who works on it, until when that is believed, and the SHA-256 of the token for it. */
  runner: Generated<string>
  leaseUntil: Generated<number>
  tokenHash: string | null
  /** How often its runner was lost in this attempt. */
  losses: Generated<number>
  /** How many entries of its runner's report are known. */
  entries: Generated<number>
  logBytes: Generated<number>
  /** JSON: jobs of the attempt before that stay as they were. */
  kept: Generated<string>
}

export type RunRow = Selectable<RunTable>

/** An attempt that another one has followed. */
export type RunAttemptRow = {
  runId: string
  attempt: number
  actorUsername: string
  conclusion: RunConclusion
  fault: string
  isolation: string
  startedAt: number | null
  completedAt: number
  logBytes: number
}

export type RunJobRow = {
  runId: string
  attempt: number
  job: number
  file: string
  workflow: string
  jobId: string
  name: string
  matrix: string
  status: RunStatus
  conclusion: RunConclusion | 'skipped' | null
  fault: string
  /** JSON: by name. */
  outputs: string
  startedAt: number | null
  completedAt: number | null
}

export type RunStepRow = {
  runId: string
  attempt: number
  step: number
  job: number
  name: string
  status: RunStatus
  conclusion: RunConclusion | 'skipped' | null
  exitCode: number | null
  fault: string
  summary: string
  /** The end of what it wrote, for lists; empty until it has ended. */
  tail: string
  startedAt: number | null
  completedAt: number | null
}

/** A piece of an attempt's log; `prefix` stands before each line of its text. */
export type RunLogRow = {
  runId: string
  attempt: number
  start: number
  size: number
  step: number | null
  prefix: string
  text: string
}

/** When a workflow starts by itself next. */
export type ScheduleRow = {
  repositoryId: string
  file: string
  cron: string
  /** Empty for UTC. */
  timezone: string
  actorId: string
  actorUsername: string
  nextAt: number
}

/** Whom to tell of a repository's events. */
type WebhookTable = {
  id: string
  repositoryId: string
  url: string
  /** Kinds of events, separated by spaces. */
  events: string
  /** Host and port of its address: what is sent to one receiver shares its limits. */
  receiver: string
  createdAt: number
  updatedAt: number
  isEnabled: Generated<number>
  /** Since when all attempts have failed; null after a success. */
  failingSince: number | null
  disabledAt: number | null
  disabledReason: Generated<string>
  /** The number of the last event that a delivery was made for. */
  lastSeq: Generated<number>
  /** When something may be due, or earlier; null when nothing is. */
  dueAt: number | null
  /** It is gone for everybody; its deliveries are removed in the background. */
  deletedAt: number | null
}

export type WebhookRow = Selectable<WebhookTable>

/** A signing secret of a webhook, sealed for the place `{ repositoryId, name: 'webhook ' + webhookId }`. */
export type WebhookSecretRow = {
  id: string
  webhookId: string
  repositoryId: string
  sealedValue: Uint8Array
  /** The id of its key, in hex. */
  keyId: string
  createdAt: number
  /** When it was replaced, and it is still signed with both: until when. */
  expiresAt: number | null
}

export type DeliveryStatus = 'pending' | 'success' | 'failed'

/** What is to be sent of one event to one webhook, or was. */
type DeliveryTable = {
  id: string
  webhookId: string
  repositoryId: string
  /** `push`, `workflow` or `ping`. */
  event: string
  /** The number of the event, and of the one before that this webhook was told of; null for a ping. */
  seq: number | null
  previousSeq: number | null
  url: string
  status: DeliveryStatus
  attempts: Generated<number>
  createdAt: number
  /** When the next attempt may be made; null unless it is pending. */
  dueAt: number | null
  /** Until when somebody is believed to be sending it, and who. */
  leaseUntil: Generated<number>
  leaseHolder: Generated<string>
  /** 1 when an attempt was asked for by hand that has not begun. */
  isWanted: Generated<number>
  lastAttemptAt: number | null
  completedAt: number | null
  responseStatus: number | null
  /** Of the last attempt, in milliseconds. */
  duration: number | null
  /** Why the last attempt failed; empty when it did not. */
  fault: Generated<string>
}

export type DeliveryRow = Selectable<DeliveryTable>

export type DeliveryAttemptRow = {
  deliveryId: string
  attempt: number
  isManual: number
  startedAt: number
  duration: number
  url: string
  /** JSON: by name, without what was signed. */
  requestHeaders: string
  responseStatus: number | null
  /** JSON: by name. */
  responseHeaders: string
  /** The first bytes of the answer. */
  responseBody: string
  fault: string
}

/**
 * Single values: `events` counts the event log, `maintenance` what of it maintenance has counted, `workflows`
 * what of it workflows have reacted to,
 * `initialized` is when the first server started.
 */
type MarkRow = { name: string; value: Generated<number> }
