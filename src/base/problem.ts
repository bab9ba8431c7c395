import { sqliteBusy } from './sqlite-busy.ts'

/** The category of a problem; each transport maps it to its own terms (HTTP to a status). */
export type ProblemKind =
  | 'invalid'
  | 'unauthenticated'
  | 'forbidden'
  | 'not-found'
  | 'method-not-allowed'
  | 'timed-out'
  | 'conflict'
  | 'gone'
  | 'too-large'
  | 'media-type'
  | 'headers-too-large'
  | 'impossible'
  | 'too-many'
  | 'internal'
  | 'not-implemented'
  | 'unavailable'
  | 'storage-full'

/** Every error that a client can receive. The codes are stable: clients may match on them. */
export const problems = {
  malformed_request: { kind: 'invalid', title: 'Malformed request' },
  invalid_request: { kind: 'invalid', title: 'Invalid fields in the request' },
  exchange_refused: { kind: 'invalid', title: 'Token exchange refused' },
  malformed_git_request: { kind: 'invalid', title: 'Malformed Git request' },
  token_required: { kind: 'unauthenticated', title: 'Token required' },
  token_invalid: { kind: 'unauthenticated', title: 'Invalid token' },
  login_refused: { kind: 'forbidden', title: 'Login refused' },
  permission_missing: { kind: 'forbidden', title: 'Missing permission' },
  token_limited: { kind: 'forbidden', title: 'Beyond the limits of the token' },
  role_insufficient: { kind: 'forbidden', title: 'Role does not allow this' },
  verdict_refused: { kind: 'forbidden', title: 'Verdict on an own change' },
  owner_required: { kind: 'forbidden', title: 'Owner or admin required' },
  branch_protected: { kind: 'forbidden', title: 'Protected branch' },
  tag_protected: { kind: 'forbidden', title: 'Protected tag' },
  path_locked: { kind: 'forbidden', title: 'File is locked by another user' },
  lfs_lock_owned: { kind: 'forbidden', title: 'Git LFS lock of another user' },
  lfs_objects_missing: { kind: 'forbidden', title: 'Push names missing Git LFS objects' },
  credentials_leaked: { kind: 'forbidden', title: 'Push contains credentials' },
  approval_required: { kind: 'forbidden', title: 'Approval required' },
  run_required: { kind: 'forbidden', title: 'Successful run required' },
  status_required: { kind: 'forbidden', title: 'Successful status required' },
  origin_forbidden: { kind: 'forbidden', title: 'Requests from this origin are not accepted' },
  source_forbidden: { kind: 'forbidden', title: 'Import source not allowed' },
  revision_not_found: { kind: 'not-found', title: 'No such revision' },
  revision_ambiguous: { kind: 'impossible', title: 'Ambiguous revision' },
  path_not_found: { kind: 'not-found', title: 'No such path' },
  file_binary: { kind: 'impossible', title: 'Binary file' },
  ref_not_found: { kind: 'impossible', title: 'No such ref' },
  ref_name_refused: { kind: 'forbidden', title: 'Ref name not allowed' },
  too_many_ref_updates: { kind: 'too-large', title: 'Too many ref updates in the push' },
  route_not_found: { kind: 'not-found', title: 'No such route' },
  repository_not_found: { kind: 'not-found', title: 'No such repository' },
  ref_absent: { kind: 'not-found', title: 'Ref does not exist' },
  protection_not_found: { kind: 'not-found', title: 'No such protection' },
  namespace_not_found: { kind: 'not-found', title: 'No such namespace' },
  namespace_member_not_found: { kind: 'not-found', title: 'No such member of the namespace' },
  collaborator_not_found: { kind: 'not-found', title: 'No such collaborator' },
  secret_not_found: { kind: 'not-found', title: 'No such secret' },
  token_not_found: { kind: 'not-found', title: 'No such token' },
  ssh_key_not_found: { kind: 'not-found', title: 'No such SSH key' },
  run_not_found: { kind: 'not-found', title: 'No such run' },
  artifact_not_found: { kind: 'not-found', title: 'No such artifact' },
  cache_not_found: { kind: 'not-found', title: 'No such cache' },
  shell_not_found: { kind: 'not-found', title: 'No such shell' },
  lfs_object_not_found: { kind: 'not-found', title: 'No such Git LFS object' },
  lfs_lock_not_found: { kind: 'not-found', title: 'No such Git LFS lock' },
  trust_rule_not_found: { kind: 'not-found', title: 'No such trust rule' },
  user_not_found: { kind: 'not-found', title: 'No such user' },
  comment_not_found: { kind: 'not-found', title: 'No such comment' },
  change_not_found: { kind: 'not-found', title: 'No such change' },
  push_not_found: { kind: 'not-found', title: 'No such push' },
  webhook_not_found: { kind: 'not-found', title: 'No such webhook' },
  delivery_not_found: { kind: 'not-found', title: 'No such delivery' },
  workspace_removed: { kind: 'gone', title: 'Workspace no longer kept' },
  events_forgotten: { kind: 'gone', title: 'Events no longer available' },
  method_not_allowed: { kind: 'method-not-allowed', title: 'Method not allowed' },
  request_timed_out: { kind: 'timed-out', title: 'Request timed out' },
  repository_name_taken: { kind: 'conflict', title: 'Repository name is taken' },
  namespace_name_taken: { kind: 'conflict', title: 'Namespace name is taken' },
  namespace_not_empty: { kind: 'conflict', title: 'Namespace has repositories' },
  repository_importing: { kind: 'conflict', title: 'Repository import in progress' },
  default_branch_deletion: { kind: 'conflict', title: 'Default branch cannot be deleted' },
  user_owns_repositories: { kind: 'conflict', title: 'User owns repositories' },
  user_in_use: { kind: 'conflict', title: 'User makes this request' },
  run_completed: { kind: 'conflict', title: 'Run has completed' },
  run_not_completed: { kind: 'conflict', title: 'Run has not completed' },
  shell_open: { kind: 'conflict', title: 'Run has an open shell' },
  artifact_exists: { kind: 'conflict', title: 'Run has an artifact of this name' },
  version_outdated: { kind: 'conflict', title: 'Not the last version of the change' },
  change_closed: { kind: 'conflict', title: 'Change is not open' },
  push_not_undoable: { kind: 'conflict', title: 'Push cannot be undone' },
  lfs_hash_unsupported: { kind: 'conflict', title: 'Unsupported Git LFS hash algorithm' },
  lfs_lock_exists: { kind: 'conflict', title: 'File is locked already' },
  ref_moved: { kind: 'conflict', title: 'Ref has another value' },
  not_fast_forward: { kind: 'conflict', title: 'Not a fast-forward' },
  merge_conflict: { kind: 'conflict', title: 'Merge conflict' },
  update_refused: { kind: 'conflict', title: 'Git refuses the update of the ref' },
  token_in_use: { kind: 'conflict', title: 'Token cannot delete itself' },
  ssh_key_taken: { kind: 'conflict', title: 'SSH key is already registered' },
  body_too_large: { kind: 'too-large', title: 'Body too large' },
  too_many_lfs_objects: { kind: 'too-large', title: 'Too many Git LFS objects in the request' },
  artifact_quota_exceeded: {
    kind: 'too-large',
    title: 'Artifacts of the repository take too much space',
  },
  unsupported_media_type: { kind: 'media-type', title: 'Unsupported content type' },
  headers_too_large: { kind: 'headers-too-large', title: 'Request headers too large' },
  path_absent: { kind: 'impossible', title: 'Path does not exist' },
  path_conflict: { kind: 'impossible', title: 'Path is in the way of another one' },
  nothing_changed: { kind: 'impossible', title: 'Commit would change nothing' },
  objects_refused: { kind: 'impossible', title: 'Git refuses the objects' },
  lfs_request_invalid: { kind: 'impossible', title: 'Invalid Git LFS request' },
  lfs_object_invalid: { kind: 'impossible', title: 'Bytes are not those of the Git LFS object' },
  histories_unrelated: { kind: 'impossible', title: 'No common history' },
  too_many_comments: { kind: 'impossible', title: 'Too many comments on the change' },
  too_many_changes: { kind: 'impossible', title: 'Too many open changes or versions' },
  too_many_commits: { kind: 'impossible', title: 'Too many commits' },
  username_unknown: { kind: 'impossible', title: 'No token has this username' },
  import_failed: { kind: 'impossible', title: 'Import failed' },
  workflow_not_found: { kind: 'impossible', title: 'No such workflow file' },
  workflow_invalid: { kind: 'impossible', title: 'Invalid workflow' },
  artifact_unreadable: { kind: 'impossible', title: 'Artifact cannot be converted' },
  git_limit_exceeded: { kind: 'impossible', title: 'Git exceeded a resource limit' },
  too_many_runs: { kind: 'impossible', title: 'Too many queued runs' },
  too_many_delegated_tokens: { kind: 'impossible', title: 'Too many delegated tokens' },
  too_many_ssh_keys: { kind: 'impossible', title: 'Too many SSH keys for the username' },
  too_many_trust_rules: { kind: 'impossible', title: 'Too many trust rules of the user' },
  too_many_statuses: { kind: 'impossible', title: 'Too many statuses of the commit' },
  too_many_lfs_locks: { kind: 'impossible', title: 'Too many Git LFS locks in the repository' },
  too_many_renames: { kind: 'impossible', title: 'Repository was renamed too often' },
  too_many_repositories: { kind: 'impossible', title: 'Too many repositories in the namespace' },
  too_many_secrets: { kind: 'impossible', title: 'Too many secrets' },
  too_many_webhooks: { kind: 'impossible', title: 'Too many webhooks' },
  outbound_forbidden: { kind: 'impossible', title: 'Connections to this host are not allowed' },
  outbound_unresolved: { kind: 'impossible', title: 'Host name cannot be resolved' },
  too_many_bad_tokens: { kind: 'too-many', title: 'Too many invalid tokens from this address' },
  too_many_requests: { kind: 'too-many', title: 'Too many requests' },
  too_many_followers: { kind: 'too-many', title: 'Too many requests are waiting for events' },
  repository_damaged: { kind: 'internal', title: 'Repository is damaged' },
  secret_unreadable: { kind: 'internal', title: 'Secret cannot be decrypted' },
  internal_error: { kind: 'internal', title: 'Internal server error' },
  lfs_not_supported: { kind: 'not-implemented', title: 'Git LFS request is not supported' },
  provider_unavailable: { kind: 'unavailable', title: 'Login at the identity provider failed' },
  issuer_unavailable: { kind: 'unavailable', title: 'Issuer of the token cannot be reached' },
  runner_unreachable: { kind: 'unavailable', title: 'Runner cannot be reached' },
  too_many_connections: { kind: 'unavailable', title: 'Too many connections' },
  checks_busy: { kind: 'unavailable', title: 'Too many concurrent workflow checks' },
  git_busy: { kind: 'unavailable', title: 'Too many concurrent Git operations' },
  database_unavailable: { kind: 'unavailable', title: 'Database unavailable' },
  storage_unavailable: { kind: 'unavailable', title: 'Storage unavailable' },
  encryption_key_missing: { kind: 'unavailable', title: 'No encryption key configured' },
  namespace_full: { kind: 'storage-full', title: 'No space left in the namespace' },
  storage_full: { kind: 'storage-full', title: 'No space left on the server' },
} as const satisfies Record<string, { kind: ProblemKind; title: string }>

export type ProblemCode = keyof typeof problems

/**
 * An invalid value of a request, by its RFC 6901 JSON pointer into the body, or as the parameter of a path or query.
 * `detail` continues a sentence that begins with the name of the value.
 */
export type FieldError =
  | { pointer: string; detail: string }
  | { pointer?: undefined; parameter: string; in: 'path' | 'query'; detail: string }

const quotedMaxLength = 100

/** The detail of a name that is not accepted; `accepted` is what it must be. */
export function refusedName(name: string, accepted: string): string {
  const isLong = name.length > quotedMaxLength
  return isLong
    ? `must be ${accepted}.`
    : `cannot be ${JSON.stringify(name)}; it must be ${accepted}.`
}

type ProblemOptions = ErrorOptions & {
  errors?: FieldError[]
  retryAfterSeconds?: number
  /** The allowed methods, for `method_not_allowed`. */
  allow?: string[]
  /** Further members of the problem's document: RFC 9457, section 3.2. */
  members?: ProblemMembers
}

/** What a client needs to go on after a problem. */
export type ProblemMembers = {
  /** The present value of the ref; 40 zeros when it does not exist. */
  head?: string
  /** The present name of a repository that was renamed. */
  renamedTo?: string
  /** What conflicts in a merge. */
  conflicts?: object[]
  /** The Git LFS lock that the file has. */
  lock?: object
  /** The code of a token exchange that failed, and its detail: RFC 6749, section 5.2. */
  error?: string
  error_description?: string
  /** The commit that conflicts, of those that are rebased. */
  commit?: string
}

/** The only error that clients see; `detail` is a sentence that they can act on. */
export class Problem extends Error {
  override readonly name = 'Problem'
  readonly code: ProblemCode
  readonly errors: FieldError[] | undefined
  readonly retryAfterSeconds: number | undefined
  readonly allow: string[] | undefined
  readonly members: ProblemMembers | undefined

  constructor(code: ProblemCode, detail: string, options: ProblemOptions = {}) {
    super(detail, options)
    this.code = code
    this.errors = options.errors
    this.retryAfterSeconds = options.retryAfterSeconds
    this.allow = options.allow
    this.members = options.members
  }
}

/**
 * Translates any thrown value into a Problem: itself, its cause, or the Problem of a known disk or database error.
 * Anything else is a bug, whose details the client does not see.
 */
export function toProblem(error: unknown): Problem {
  const problem = problemIn(error)
  if (problem) return problem
  const { code, errcode } = codesOf(error)
  if (fullDiskCodes.has(code) || errcode === sqliteFull) {
    return new Problem('storage_full', 'The server has no space left; nothing was changed.', {
      cause: error,
    })
  }
  if (code === statementTimeout || errcode === sqliteBusy || hasPoolTimeout(error)) {
    return databaseBusy(error)
  }
  const isUnreachable = unreachableDatabaseCodes.has(code) || code.startsWith('08')
  if (isUnreachable || isLostConnection(error)) {
    return new Problem('database_unavailable', 'The database does not respond; try again.', {
      cause: error,
      retryAfterSeconds: 5,
    })
  }
  if (rolledBackCodes.has(code)) {
    const detail = 'A concurrent change to the database interfered; nothing was done, try again.'
    return new Problem('database_unavailable', detail, { cause: error, retryAfterSeconds: 1 })
  }
  return new Problem('internal_error', 'Internal server error; see the server log.', {
    cause: error,
  })
}

/** The problem of a change that waited too long for others, or for one of the server's connections. */
export function databaseBusy(cause?: unknown): Problem {
  const detail = 'The database is busy with other requests; nothing was done, try again.'
  return new Problem('database_unavailable', detail, { cause, retryAfterSeconds: 5 })
}

/** Returns the Problem that a thrown value is, or has as its cause. */
export function problemIn(error: unknown): Problem | undefined {
  if (error instanceof Problem) return error
  return error instanceof Error && error.cause instanceof Problem ? error.cause : undefined
}

// SQLite result codes: https://sqlite.org/rescode.html. PostgreSQL error codes: its manual, appendix A.
const sqliteFull = 13
const fullDiskCodes = new Set(['ENOSPC', 'EDQUOT', '53100'])
const statementTimeout = '57014'
const unreachableDatabaseCodes = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  '25P03',
  '53300',
  '57P01',
  '57P02',
  '57P03',
])

// Serialization failure and deadlock: the transaction was rolled back and may be retried.
const rolledBackCodes = new Set(['40001', '40P01'])

// The PostgreSQL client's own errors have no code.
function isLostConnection(error: unknown): boolean {
  const lost =
    /^(Query read timeout|Connection terminated|Client has encountered a connection error)/
  return error instanceof Error && lost.test(error.message)
}

// All connections of the pool are in use: one that cannot be opened has another message.
function hasPoolTimeout(error: unknown): boolean {
  return error instanceof Error && error.message === 'timeout exceeded when trying to connect'
}

function codesOf(error: unknown): { code: string; errcode: number | undefined } {
  if (!(error instanceof Error)) return { code: '', errcode: undefined }
  const code = 'code' in error && typeof error.code === 'string' ? error.code : ''
  const errcode =
    'errcode' in error && typeof error.errcode === 'number' ? error.errcode : undefined
  return { code, errcode }
}
