import type { Generated, Insertable, Kysely, Selectable, Transaction } from 'kysely'
import type { Role } from '#access/roles.ts'
import type { Visibility } from '#access/visibility.ts'
import type { ObjectFormat } from '#base/object-id.ts'

/** All tables. Columns are snake_case in SQL and camelCase here; times are milliseconds since the epoch. */
export type Schema = {
  users: UserRow
  logins: LoginRow
  userGroups: { username: string; name: string }
  loginAttempts: LoginAttemptRow
  cliLogins: CliLoginRow
  tokens: TokenRow
  sshKeys: SshKeyRow
  trustRules: TrustRuleRow
  trustRuleRepositories: TrustRuleRepositoryRow
  workloadTokens: WorkloadTokenRow
  sessions: SessionRow
  loginCodes: LoginCodeRow
  namespaces: NamespaceRow
  namespaceLimits: NamespaceLimitsRow
  namespaceDays: NamespaceDayRow
  namespaceMembers: NamespaceMemberRow
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
  lfsObjects: LfsObjectRow
  lfsTokens: LfsTokenRow
  lfsLocks: LfsLockRow
  commitStatuses: CommitStatusRow
  changes: ChangeRow
  changeVersions: ChangeVersionRow
  queuedChanges: QueuedChangeRow
  branchQueues: BranchQueueRow
  changeComments: ChangeCommentRow
  changeVerdicts: ChangeVerdictRow
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

export type UserRow = {
  id: string
  username: string
  displayName: string
  email: string
  createdAt: number
  /** When one of its tokens or keys was last used, to within 30 s. */
  lastSeenAt: number | null
  /** While it is set, no token, key or session of the user is valid. */
  disabledAt: number | null
  /** `login` for a user who is linked with a login of the identity provider. */
  source: 'token' | 'login'
  /** Since when the identity provider has not vouched for the user; it has the same effect. Null again after a login. */
  loginEndedAt: number | null
}

/** A person at an identity provider, and the user that the person is. */
export type LoginRow = {
  id: string
  username: string
  issuer: string
  /** The `sub` of the issuer, which never changes. */
  subject: string
  isAdmin: number
  createdAt: number
  /** Null while the person has not logged in. */
  lastLoginAt: number | null
  /** When the groups of the person were last read. */
  checkedAt: number | null
  /** When they are read next; null without a refresh token. */
  nextCheckAt: number | null
  /** Since when the provider has not responded to checks; null if it did to the last one. */
  failingSince: number | null
  /** Sealed. */
  refreshToken: Uint8Array | null
}

/** A login whose browser is at the identity provider. */
export type LoginAttemptRow = {
  stateHash: string
  browserHash: string
  nonce: string
  codeVerifier: string
  /** The session that it confirms; null for one that it begins. */
  sessionId: string | null
  /** The path of the page that follows. */
  next: string
  expiresAt: number
}

/** A command line that waits for the consent of a browser. */
export type CliLoginRow = {
  codeHash: string
  /** PKCE: the SHA-256 of a secret that only the command line has. */
  challenge: string
  /** The name that the machine gives itself. */
  machine: string
  address: string
  /** The token whose user consented, and the session in which. */
  tokenId: string | null
  sessionId: string | null
  expiresAt: number
}

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
  /** The login that it ends with. */
  loginId: string | null
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
  /** The ids of the repositories that it is limited to, as JSON; null for all. */
  repositories: string | null
}

export type TrustRuleRow = {
  id: string
  name: string
  /** The user who created it, on whose rights it depends. */
  username: string
  /** The namespace that it is of; null for one of some repositories. */
  namespaceId: string | null
  /** Whether it is for all repositories of its namespace, 0 or 1. */
  coversAll: number
  issuer: string
  audience: string
  /** Patterns of claims by their names, as JSON. */
  claims: string
  /** Patterns of refs, as JSON; null for all. */
  refs: string | null
  /** Permission names, separated by spaces. */
  permissions: string
  createdAt: number
  lastUsedAt: number | null
  lastRefusedAt: number | null
  /** Why it did not match a token that the issuer had signed. */
  lastRefusal: string | null
}

type TrustRuleRepositoryRow = { ruleId: string; repositoryId: string }

export type WorkloadTokenRow = {
  id: string
  tokenHash: string
  ruleId: string
  /** The `sub` of the workload. */
  subject: string
  expiresAt: number
}

export type NamespaceRow = {
  id: string
  name: string
  /** The name in lower case: names are unique without regard to case, also among those of repositories. */
  nameKey: string
  createdAt: number
}

/** The limits of a namespace; a namespace without a row has none. */
export type NamespaceLimitsRow = {
  namespaceId: string
  maxRepositories: number | null
  maxBytes: number | null
}

/** The usage of a namespace on a day. */
export type NamespaceDayRow = {
  namespaceId: string
  /** In UTC, such as `2026-11-30`. */
  day: string
  pushes: number
  fetches: number
  /** The bytes of Git and Git LFS that passed the servers. */
  receivedBytes: number
  sentBytes: number
  /** The time of workflow runs. */
  runMs: number
}

export type NamespaceMemberRow = {
  namespaceId: string
  /** A username, or `group:` and the name of a group of the identity provider. */
  member: string
  role: Role
  createdAt: number
}

export type RepositoryRow = Selectable<RepositoryTable>
export type NewRepository = Insertable<RepositoryTable>

type RepositoryTable = {
  id: string
  name: string
  /** The name in lower case: names are unique without regard to case. A deleted repository has a key that is none. */
  nameKey: string
  /** The namespace in its name; null when there is none. */
  namespaceId: Generated<string | null>
  /** The sequence number of the last event before it was moved there; 0 if it was made there. */
  joinedSeq: Generated<number>
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
  /** How many locks of Git LFS it has. */
  lfsLocks: Generated<number>
  /** The bytes of its packs after the last push, import or maintenance; null until they are measured. */
  packBytes: Generated<number | null>
  /** The bytes of its LFS objects. */
  lfsBytes: Generated<number>
  /** Null while it is empty and nothing has decided it. */
  objectFormat: Generated<ObjectFormat | null>
  /** Whether pushes are scanned for credentials. */
  leakGuard: Generated<LeakGuardState>
  /** The most that tokens of its runs may do in it. */
  runTokens: Generated<RunTokenAccess>
  /** Who can read it without a role in it. */
  visibility: Generated<Visibility>
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

/** An object of Git LFS that a repository has: its bytes were durable before this row. */
export type LfsObjectRow = {
  repositoryId: string
  /** The SHA-256 of the bytes, in hex. */
  oid: string
  size: number
  /** With a shared store: its key in the bucket. */
  bucketKey: string | null
  createdAt: number
  /** When a client was last going to push pointers to it. */
  renewedAt: number
  /** When it was last looked for in the pointers of the repository, or created. */
  checkedAt: number
}

/** A lock of Git LFS: only its owner may change the file. */
export type LfsLockRow = {
  id: string
  repositoryId: string
  path: string
  /** The owner. */
  username: string
  lockedAt: number
}

/** A token of `git-lfs-authenticate`. */
export type LfsTokenRow = {
  tokenHash: string
  repositoryId: string
  permission: 'repo:read' | 'repo:write'
  /** The SSH key that requested it; null for an anonymous reader. */
  keyId: string | null
  /** The address of the client. */
  address: string
  expiresAt: number
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
  /** The repository or namespace that it belongs to. */
  scopeId: string
  /** The name or pattern of branches; that of tags starts with `refs/tags/`. */
  branch: string
  createdAt: number
  /** What owners may do: see repositories/protection-rules.ts. */
  owners: 'any' | 'fast-forward' | 'none'
  /** JSON: see repositories/requirements.ts. */
  requires: string
  approvals: number
  /** Whether owners of paths must approve: 0 or 1. */
  codeOwners: number
  /** Whether changes land through the queue: 0 or 1. */
  queue: number
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
  /** The repository or namespace that it belongs to. */
  scopeId: string
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
type RunEvent = 'push' | 'pull_request' | 'merge_group' | 'workflow_dispatch' | 'schedule'

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
  /** Whether its commit is of a user who might not push when it was created: it has no secrets, and changes nothing. */
  isRestricted: Generated<number>
  /** Whether it stays queued until a user who may push approves it. */
  needsApproval: Generated<number>
}

/** A change that is proposed for a branch. */
export type ChangeRow = {
  repositoryId: string
  number: number
  /** The full name of the branch that it is for. */
  target: string
  /** The full name of the branch whose pushes make its versions; empty for a change made by pushes to `refs/for/`. */
  source: string
  /** What identifies it among the open changes of its user and target; empty for nothing. */
  topic: string
  title: string
  description: string
  state: 'open' | 'landed' | 'abandoned'
  /** Who has proposed it. */
  username: string
  /** Its last version, and the commit of that. */
  version: number
  commitId: string
  createdAt: number
  updatedAt: number
  closedAt: number | null
  closedBy: string | null
  /** The commit of the branch that landed it, and the push. */
  landedId: string | null
  pushId: string | null
  /** What the queue says of it last, in a sentence; empty for nothing. */
  queueNote: string
}

/** A change in the queue of its branch. */
export type QueuedChangeRow = {
  repositoryId: string
  number: number
  /** Sorts after those of earlier entries. */
  id: string
  target: string
  version: number
  method: 'merge' | 'squash' | 'rebase'
  message: string
  /** The token that has put it into the queue, as a principal, and its user. */
  actorKind: 'token' | 'workload'
  actorId: string
  username: string
  /** Whether it goes before the others: 0 or 1. */
  urgent: number
  /**
   * What trials say of it: nothing, that it has failed together with others, that it is to be tried alone, or that it has
   * succeeded.
   */
  standing: 'new' | 'questioned' | 'suspect' | 'proven'
  /** How often it has failed alone, and how it has at last, in lines. */
  failures: number
  detail: string
  queuedAt: number
}

/** A branch with a queue that is not empty. */
export type BranchQueueRow = {
  repositoryId: string
  target: string
  /** How many changes are tried together at most. */
  size: number
  /** JSON: see changes/queue/trial.ts. */
  work: string
  /** Counts the updates of the row, so that only the node that read it last changes it. */
  revision: number
  /** Counts the changes that have come. */
  arrivals: number
  /** The node that works on it, and until when others leave it alone; empty for none. */
  worker: string
  workUntil: number
}

/** A version of a change. */
export type ChangeVersionRow = {
  repositoryId: string
  number: number
  version: number
  commitId: string
  /** The merge base with the target at that time. */
  baseId: string
  /** Identifies its patches and messages, wherever they are based. */
  patchId: string
  username: string
  /** The token or key that made it; empty when that is unknown. */
  actorId: string
  createdAt: number
}

/** A comment on a change, on a file, or on a line of a file. */
export type ChangeCommentRow = {
  id: string
  repositoryId: string
  number: number
  /** The first comment of its thread. */
  threadId: string
  version: number
  /** The file; empty for a comment on the change. */
  path: string
  /** Whether the line is of the version, or of its base. */
  side: 'new' | 'old'
  /** Null for a comment on the change or file. */
  line: number | null
  text: string
  username: string
  createdAt: number
  editedAt: number | null
  /** Who has resolved the thread, in its first comment; null while it is open. */
  resolvedBy: string | null
}

/** What a user says of a version of a change as a whole. */
export type ChangeVerdictRow = {
  repositoryId: string
  number: number
  username: string
  version: number
  verdict: 'approve' | 'request-changes'
  createdAt: number
}

/** What a check from outside says of a commit. */
export type CommitStatusRow = {
  id: string
  repositoryId: string
  commitId: string
  /** What has checked it. */
  context: string
  state: 'pending' | 'success' | 'failure' | 'error'
  description: string
  /** Where its details are; empty if that is unknown. */
  targetUrl: string
  username: string
  createdAt: number
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

/** A session of the pages; either `tokenId` or `sshKeyId` is set. */
export type SessionRow = {
  id: string
  secretHash: string
  tokenId: string | null
  sshKeyId: string | null
  username: string
  userAgent: string
  createdAt: number
  seenAt: number
  expiresAt: number
  /** Until when it may change something. */
  unlockedUntil: number
}

export type LoginCodeRow = {
  codeHash: string
  tokenId: string | null
  sshKeyId: string | null
  expiresAt: number
}

/** A ref of a repository in a shared store, also a hidden one. */
export type RefRow = {
  repositoryId: string
  name: string
  objectId: string
  /** The object that an annotated tag points to, at the end of a chain of tags. */
  peeledId: string | null
}

/** A pack of a repository in a shared store. Never changes, except that maintenance retires it. */
export type PackRow = {
  /** The key of its upload: in the object storage, its files are at this key with `.pack` and `.idx`. */
  key: string
  repositoryId: string
  /** The checksum in the name of its files. */
  hash: string
  packBytes: number
  packSha256: string
  idxBytes: number
  idxSha256: string
  mtimesBytes: number | null
  mtimesSha256: string | null
  /** The files themselves while they are small; null when they are in the object storage. */
  pack: Uint8Array | null
  idx: Uint8Array | null
  mtimes: Uint8Array | null
  addedAtVersion: number
  retiredAtVersion: number | null
  retiredAt: number | null
}

/** Files in the object storage that no pack row names yet, or no longer. */
type UploadRow = {
  key: string
  node: string
  /** Of an upload by a client. */
  repositoryId: string | null
  begunAt: number
  /** A dead one can no longer be committed, and its files may be deleted. */
  state: 'open' | 'dead'
}

/** A server of the service. */
export type NodeRow = {
  id: string
  epoch: number
  seenAt: number
  /** The data directory of the server that has the name, on which machine; empty when it is unknown. */
  place: string
  /** The fingerprint of its SSH host key; empty without SSH. */
  hostKey: string
}

/** The service, in one row. */
export type InstanceRow = {
  id: string
  /** The bucket and prefix of a shared store when they were marked with the id. */
  bucket: string | null
  /** The id of an encryption key that every server must have; null before a server with a key has started. */
  keyId: string | null
}

/** The ways to change refs. */
export type Via = 'http' | 'ssh' | 'api' | 'undo' | 'queue'

/** The journal of pushes: the updates that were authorized and, once finalized, those that took effect. */
export type PushRow = Selectable<PushTable>
export type NewPush = Insertable<PushTable>

type PushTable = {
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
  /** JSON of Landing; null when it lands no change. */
  landing: Generated<string | null>
  /** The bytes that it adds to the repository; while it is unfinished, they count as those of the repository do. */
  bytes: Generated<number>
}

/** What a push says about its runs. */
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

/** What a step of a run says about a file of its commit, or in general. */
export type RunAnnotationRow = {
  runId: string
  attempt: number
  /** The order within the attempt. */
  number: number
  step: number
  level: 'error' | 'warning' | 'notice'
  /** Empty for none. */
  file: string
  line: number | null
  endLine: number | null
  col: number | null
  endCol: number | null
  title: string
  message: string
}

/** A file of runs: in the data directory, or an object in the bucket of a shared store. */
export type RunFileRow = {
  id: string
  repositoryId: string
  /** The server that received it. */
  node: string
  /** It is being received, belongs to an artifact or a cache, or is to be removed. */
  state: 'open' | 'kept' | 'dead'
  size: number
  sha256: string
  /** When it got its state. */
  changedAt: number
}

/** An artifact of a run; its id is that of its file. */
export type ArtifactRow = {
  id: string
  repositoryId: string
  runId: string
  attempt: number
  name: string
  createdAt: number
  expiresAt: number
}

/** A cache that runs share; its id is that of its file. */
export type RunCacheRow = {
  id: string
  repositoryId: string
  /** The branch or tag whose run saved it: its scope. */
  ref: string
  /** 1 when the ref was protected, also before that run was created. */
  isProtected: number
  /** What its client computes of paths and compression. */
  version: string
  key: string
  createdAt: number
  usedAt: number
}

/** A token of jobs of a run; valid while `claim` is the hash of the token of the running run. */
export type JobTokenRow = {
  tokenHash: string
  runId: string
  claim: string
  /** The path and the name of the workflow. */
  file: string
  workflow: string
  /** The path of the file that has the jobs: another one if it is called. */
  jobFile: string
  /** Permission names, separated by spaces, or `id-token`. */
  rights: string
}

/** A key pair that signs ID tokens. */
export type SigningKeyRow = {
  id: string
  /** JSON: a JWK (RFC 7517). */
  publicKey: string
  /** The private key in PEM (PKCS #8), sealed with a key: see secrets/vault/vault.ts. */
  sealedPrivate: Uint8Array
  /** The id of that key, in hex. */
  keyId: string
  createdAt: number
}

/** The workspace of a failed job, which its runner keeps for a while. */
export type FailedWorkspaceRow = {
  /** Chosen by the runner. */
  id: string
  runId: string
  repositoryId: string
  attempt: number
  /** The name of the job. */
  job: string
  /** The name of the runner that keeps it, and the hash of its secret. */
  runner: string
  holder: string
  /** For how long after the end of its run it is kept. */
  keptMs: number
  /** The last heartbeat of the runner that holds it. */
  seenAt: number
  /** When it was removed; null while it exists. */
  removedAt: number | null
}

/** A shell in the workspace of a failed job. */
export type RunShellRow = {
  id: string
  runId: string
  repositoryId: string
  workspaceId: string
  holder: string
  /** The token that opened it. */
  actorId: string
  actorUsername: string
  /** The size of the terminal; null without a terminal. */
  terminalColumns: number | null
  terminalRows: number | null
  term: string
  openedAt: number
  /** When the runner took it; null before. */
  startedAt: number | null
  /** When its user and its runner last made a request. */
  userSeenAt: number
  runnerSeenAt: number
  /** Bytes in each direction that were received, and that were read. */
  inputSize: number
  inputRead: number
  outputSize: number
  outputRead: number
  /** 1 when no more input comes. */
  isInputClosed: number
  endedAt: number | null
  exitCode: number | null
  /** Why it ended, if not by its own exit. */
  endReason: string
}

/** Bytes of a shell that are on their way, from the offset `start`; sealed, since they may contain secrets. */
export type RunShellBytesRow = {
  shellId: string
  direction: 'input' | 'output'
  start: number
  sealedBytes: Uint8Array
}

type WebhookTable = {
  id: string
  /** The repository or namespace that it belongs to. */
  scopeId: string
  url: string
  /** Kinds of events, separated by spaces. */
  events: string
  /** Host and port of its URL; deliveries to one receiver share its limits. */
  receiver: string
  createdAt: number
  updatedAt: number
  isEnabled: Generated<number>
  /** Since when all attempts have failed; null after a success. */
  failingSince: number | null
  disabledAt: number | null
  disabledReason: Generated<string>
  /** The sequence number of the last event with a delivery. */
  lastSeq: Generated<number>
  /** The earliest time at which a delivery may be due; null when none is pending. */
  dueAt: number | null
  /** Set once it is deleted; its deliveries are removed in the background. */
  deletedAt: number | null
}

export type WebhookRow = Selectable<WebhookTable>

/** A signing secret of a webhook, sealed for the binding `{ scopeId, name: 'webhook ' + webhookId }`. */
export type WebhookSecretRow = {
  id: string
  webhookId: string
  scopeId: string
  sealedValue: Uint8Array
  /** The id of its key, in hex. */
  keyId: string
  createdAt: number
  /** Until when deliveries are also signed with this replaced secret; null for the current one. */
  expiresAt: number | null
}

export type DeliveryStatus = 'pending' | 'success' | 'failed'

/** The delivery of one event to one webhook. */
type DeliveryTable = {
  id: string
  webhookId: string
  /** That of the event; the namespace for a ping of its webhook. */
  repositoryId: string
  /** `push`, `workflow` or `ping`. */
  event: string
  /** Sequence numbers of the event, and of the previous event for this webhook; null for a ping. */
  seq: number | null
  previousSeq: number | null
  url: string
  status: DeliveryStatus
  attempts: Generated<number>
  createdAt: number
  /** When the next attempt may be made; null unless it is pending. */
  dueAt: number | null
  /** When the lease ends, and its owner. */
  leaseUntil: Generated<number>
  leaseHolder: Generated<string>
  /** 1 when an attempt was requested manually and has not started. */
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
  /** JSON: by name, without signatures. */
  requestHeaders: string
  responseStatus: number | null
  /** JSON: by name. */
  responseHeaders: string
  /** The start of the response body. */
  responseBody: string
  fault: string
}
