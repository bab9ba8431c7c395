import type { Generated, Insertable, Kysely, Selectable, Transaction } from 'kysely'
import type { Role } from '#access/roles.ts'
import type { JobTokenRow, SigningKeyRow } from './identity-schema.ts'
import type { MaintenanceRow } from './maintenance-schema.ts'
import type { PushTable } from './push-schema.ts'
import type { RunAnnotationRow } from './run-annotation-schema.ts'
import type { ArtifactRow, RunCacheRow, RunFileRow } from './run-file-schema.ts'
import type { FailedWorkspaceRow, RunShellBytesRow, RunShellRow } from './run-shell-schema.ts'
import type { LoginCodeRow, SessionRow } from './session-schema.ts'
import type { InstanceRow, NodeRow, PackRow, RefRow, UploadRow } from './shared-store-schema.ts'
import type {
  DeliveryAttemptRow,
  DeliveryTable,
  WebhookSecretRow,
  WebhookTable,
} from './webhook-schema.ts'

/** All tables. Columns are snake_case in SQL and camelCase here; times are milliseconds since the epoch. */
export type Schema = {
  tokens: TokenRow
  sshKeys: SshKeyRow
  sessions: SessionRow
  loginCodes: LoginCodeRow
  repositories: RepositoryTable
  imports: ImportRow
  protections: ProtectionRow
  collaborators: CollaboratorRow
  refs: RefRow
  packs: PackRow
  uploads: UploadRow
  nodes: NodeRow
  secrets: SecretRow
  pushes: PushTable
  events: EventRow
  marks: MarkRow
  audit: AuditRow
  instance: InstanceRow
  leakGuardKeys: { id: number; key: string }
  maintenance: MaintenanceRow
  runs: RunTable
  runNumbers: { repositoryId: string; last: number }
  runGroups: { runId: string; name: string }
  runAttempts: RunAttemptRow
  runJobs: RunJobRow
  runSteps: RunStepRow
  runAnnotations: RunAnnotationRow
  runLogs: RunLogRow
  schedules: ScheduleRow
  runFiles: RunFileRow
  artifacts: ArtifactRow
  runCaches: RunCacheRow
  formerNames: FormerNameRow
  jobTokens: JobTokenRow
  failedWorkspaces: FailedWorkspaceRow
  runShells: RunShellRow
  runShellBytes: RunShellBytesRow
  signingKeys: SigningKeyRow
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
  /** JSON: the ids of the repositories that it is limited to; null for all. */
  repositories: string | null
  /** JSON: the patterns of the refs that it may push; null for all. */
  refs: string | null
  /** The tokens that it was delegated from: directly, and at the start of the chain. */
  delegatedFrom: string | null
  delegationRoot: string | null
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

export type RepositoryRow = Selectable<RepositoryTable>
export type NewRepository = Insertable<RepositoryTable>

type RepositoryTable = {
  id: string
  name: string
  /** The name in lower case: names are unique without regard to case. A deleted repository has a key that is none. */
  nameKey: string
  ownerTokenId: string
  ownerUsername: string
  createdAt: number
  /** A repository that is being imported has no directory yet. */
  state: RepositoryState
  /** In a shared store: counts the changes of its refs and packs, and those that dropped objects. */
  version: Generated<number>
  pruneEpoch: Generated<number>
  /** In a shared store: the default branch. Without one, HEAD in the directory names it. */
  head: Generated<string | null>
  description: Generated<string>
  /** When the last push was received; null when there was none. */
  pushedAt: Generated<number | null>
  /** When its import was completed; null when it was created empty. */
  importedAt: Generated<number | null>
  /** How many objects of Git LFS its import left behind. */
  missingLfsObjects: Generated<number>
  /** Whether pushes are scanned for credentials. */
  leakGuard: Generated<LeakGuardState>
  /** The most that tokens of its runs may do in it. */
  runTokens: Generated<RunTokenAccess>
  /** Whether a user has set the default branch, and not only pushes: 0 or 1. */
  headChosen: Generated<number>
  /** When it was deleted, if it can be restored or is being purged. */
  deletedAt: Generated<number | null>
}

/** A name that a rename has freed. */
type FormerNameRow = {
  /** The name in lower case. */
  nameKey: string
  name: string
  repositoryId: string
  freedAt: number
}

export type LeakGuardState = 'on' | 'off'

export type RunTokenAccess = 'read' | 'write'

/** The state of a repository that was not deleted. */
export type LiveState = 'importing' | 'ready'

/** A repository that is `deleted` can be restored; once it is `purging`, all that is left is removed. */
export type RepositoryState = LiveState | 'deleted' | 'purging'

/** An import that is running or has failed; the row is deleted on success. */
export type ImportRow = {
  repositoryId: string
  name: string
  nameKey: string
  ownerTokenId: string
  ownerUsername: string
  /** The source URL or path, without credentials. */
  source: string
  /** See git/import/progress.ts. */
  phase: string
  /** In percent. */
  progress: number
  faultCode: string | null
  faultDetail: string | null
  startedAt: number
  endedAt: number | null
  /** The server or command that runs it. */
  node: string
}

export type ProtectionRow = {
  repositoryId: string
  /** The name or pattern of branches; that of tags starts with `refs/tags/`. */
  branch: string
  createdAt: number
  /** What owners may do: see repositories/protection-rules.ts. */
  owners: 'any' | 'fast-forward' | 'none'
  /** JSON: paths of workflow files. */
  requires: string
}

export type CollaboratorRow = {
  repositoryId: string
  username: string
  createdAt: number
  role: Role
}

/** A secret, sealed with a key: see secrets/vault/vault.ts. */
export type SecretRow = {
  id: string
  repositoryId: string
  name: string
  sealedValue: Uint8Array
  /** The id of its key, in hex. */
  keyId: string
  createdAt: number
  /** When its value was last set; resealing it with another key does not count. */
  updatedAt: number
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

/** An entry of the audit log. */
export type AuditRow = {
  seq: number
  createdAt: number
  /** The kind of an event, or an action that is none: see events/audit/record.ts. */
  action: string
  actorId: string
  actorUsername: string
  via: string
  address: string | null
  repositoryId: string | null
  /** JSON, by action. */
  data: string
  /** See events/audit/entry-hash.ts. */
  hash: string
}

type RunStatus = 'queued' | 'running' | 'completed'
export type RunConclusion = 'success' | 'failure' | 'cancelled' | 'timed_out'
type RunEvent = 'push' | 'workflow_dispatch' | 'schedule'

/** A run of workflows, in its current attempt; while it is queued or running, also its entry in the queue. */
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
  /** JSON: the files and the actions that they use, as of the commit. */
  sources: string
  /** JSON: labels that its runner must have. */
  labels: string
  /** JSON: the secrets in the lists of its files; null when a file has no list. */
  secretNames: string | null
  /** The token or key that caused its first attempt, and with it the choice of the commit. */
  causeId: Generated<string>
  /** The token or key that caused the current attempt. */
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
  /** Why it was cancelled; null when it was not. */
  cancelReason: string | null
  cancelledAt: number | null
  /** The server on which a push waits or waited for its first attempt; null when none did, or its commit is on the ref. */
  awaitedBy: Generated<string | null>
  /** JSON of LentPack: with a shared store, its commit until then. */
  awaitedPack: Generated<string | null>
  /** The runner that has the lease, when the lease ends, and the SHA-256 of its token. */
  runner: Generated<string>
  leaseUntil: Generated<number>
  tokenHash: string | null
  /** How often its runner was lost in this attempt. */
  losses: Generated<number>
  /** The number of entries received of its runner's report. */
  entries: Generated<number>
  logBytes: Generated<number>
  /** JSON: jobs of the previous attempt whose results are reused. */
  kept: Generated<string>
  /** JSON: what each job asks for with `permissions`, see workflows/job-grants.ts. */
  grants: Generated<string>
}

export type RunRow = Selectable<RunTable>

/** A former attempt of a run. */
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
  /** 1 if it failed and the run goes on. */
  tolerated: number
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
  /** The end of its output, for lists; empty until the step has ended. */
  tail: string
  startedAt: number | null
  completedAt: number | null
}

/** A chunk of an attempt's log; `prefix` precedes each line of its text. */
export type RunLogRow = {
  runId: string
  attempt: number
  start: number
  size: number
  step: number | null
  prefix: string
  text: string
}

/** The next scheduled start of a workflow. */
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

/**
 * Named values: `events` is the last sequence number of the event log, `maintenance` and `workflows` are the cursors of
 * its readers, and `initialized` is when the first server started.
 */
type MarkRow = { name: string; value: Generated<number> }
