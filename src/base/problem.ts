import { sqliteBusy } from './sqlite-busy.ts'

/** What went wrong in the terms of a client; each transport translates it (HTTP into a status). */
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

/** Every fault that a client can be told of. The codes are stable: clients may match on them. */
export const problems = {
  malformed_request: { kind: 'invalid', title: 'The request is malformed' },
  invalid_request: { kind: 'invalid', title: 'The request has invalid fields' },
  malformed_git_request: { kind: 'invalid', title: "The request is not Git's smart protocol" },
  token_required: { kind: 'unauthenticated', title: 'A token is required' },
  token_invalid: { kind: 'unauthenticated', title: 'The token is not valid' },
  permission_missing: { kind: 'forbidden', title: 'A permission is missing' },
  owner_required: { kind: 'forbidden', title: 'Only the owner or an admin may do this' },
  branch_protected: { kind: 'forbidden', title: 'The branch is protected' },
  source_forbidden: { kind: 'forbidden', title: 'The source may not be read' },
  ref_not_found: { kind: 'impossible', title: 'No such ref' },
  ref_name_refused: { kind: 'forbidden', title: 'The ref name is not accepted' },
  too_many_ref_updates: { kind: 'too-large', title: 'The push changes too many refs' },
  route_not_found: { kind: 'not-found', title: 'There is nothing at this address' },
  repository_not_found: { kind: 'not-found', title: 'No such repository' },
  protection_not_found: { kind: 'not-found', title: 'No such branch protection' },
  collaborator_not_found: { kind: 'not-found', title: 'No such collaborator' },
  secret_not_found: { kind: 'not-found', title: 'No such secret' },
  token_not_found: { kind: 'not-found', title: 'No such token' },
  ssh_key_not_found: { kind: 'not-found', title: 'No such SSH key' },
  run_not_found: { kind: 'not-found', title: 'No such run' },
  push_not_found: { kind: 'not-found', title: 'No such push' },
  webhook_not_found: { kind: 'not-found', title: 'No such webhook' },
  delivery_not_found: { kind: 'not-found', title: 'No such delivery' },
  events_forgotten: { kind: 'gone', title: 'The events are not kept any more' },
  method_not_allowed: { kind: 'method-not-allowed', title: 'The address has no such method' },
  request_timed_out: { kind: 'timed-out', title: 'The request took too long to arrive' },
  repository_name_taken: { kind: 'conflict', title: 'The repository name is taken' },
  repository_importing: { kind: 'conflict', title: 'The repository is still being imported' },
  default_branch_deletion: { kind: 'conflict', title: 'The default branch cannot be deleted' },
  run_completed: { kind: 'conflict', title: 'The run has completed' },
  run_not_completed: { kind: 'conflict', title: 'The run has not completed' },
  push_not_undoable: { kind: 'conflict', title: 'The push cannot be undone' },
  token_in_use: { kind: 'conflict', title: 'A token cannot delete itself' },
  ssh_key_taken: { kind: 'conflict', title: 'The SSH key is registered already' },
  body_too_large: { kind: 'too-large', title: 'The body is too large' },
  unsupported_media_type: { kind: 'media-type', title: 'The content type is not accepted' },
  headers_too_large: { kind: 'headers-too-large', title: 'The request headers are too large' },
  username_unknown: { kind: 'impossible', title: 'No token has this username' },
  import_failed: { kind: 'impossible', title: 'The source cannot be imported' },
  workflow_not_found: { kind: 'impossible', title: 'No such workflow file' },
  workflow_invalid: { kind: 'impossible', title: 'The workflow cannot run' },
  git_limit_exceeded: { kind: 'impossible', title: 'Git needed more than it may take' },
  too_many_runs: { kind: 'impossible', title: 'Too many runs wait in this repository' },
  too_many_ssh_keys: { kind: 'impossible', title: 'The username has too many SSH keys' },
  too_many_secrets: { kind: 'impossible', title: 'The repository has too many secrets' },
  too_many_webhooks: { kind: 'impossible', title: 'The repository has too many webhooks' },
  outbound_forbidden: { kind: 'impossible', title: 'The server may not connect to this host' },
  outbound_unresolved: { kind: 'impossible', title: 'The host cannot be found' },
  too_many_bad_tokens: { kind: 'too-many', title: 'Too many bad tokens from this address' },
  too_many_requests: { kind: 'too-many', title: 'Too many requests with this token' },
  too_many_followers: { kind: 'too-many', title: 'Too many requests wait for events' },
  repository_damaged: { kind: 'internal', title: 'The repository is damaged on the server' },
  secret_unreadable: { kind: 'internal', title: 'A secret cannot be opened' },
  internal_error: { kind: 'internal', title: 'The server failed' },
  lfs_not_supported: { kind: 'not-implemented', title: 'Git LFS is not supported' },
  checks_busy: { kind: 'unavailable', title: 'Too many workflow files at once' },
  git_busy: { kind: 'unavailable', title: 'Too many Git operations at once' },
  database_unavailable: { kind: 'unavailable', title: 'The database does not answer' },
  storage_unavailable: { kind: 'unavailable', title: 'The data directory cannot be read' },
  encryption_key_missing: { kind: 'unavailable', title: 'The server has no encryption key' },
  storage_full: { kind: 'storage-full', title: 'The server has no space left' },
} as const satisfies Record<string, { kind: ProblemKind; title: string }>

export type ProblemCode = keyof typeof problems

/** One fault of a request's content. `pointer` is an RFC 6901 JSON pointer into the body, or a parameter's name. */
export type FieldError = { pointer: string; detail: string }

type ProblemOptions = ErrorOptions & {
  errors?: FieldError[]
  retryAfterSeconds?: number
  /** Methods of the address, for `method_not_allowed`. */
  allow?: string[]
}

/** The only error that is shown to a client; `detail` is a sentence that the client can act on. */
export class Problem extends Error {
  override readonly name = 'Problem'
  readonly code: ProblemCode
  readonly errors: FieldError[] | undefined
  readonly retryAfterSeconds: number | undefined
  readonly allow: string[] | undefined

  constructor(code: ProblemCode, detail: string, options: ProblemOptions = {}) {
    super(detail, options)
    this.code = code
    this.errors = options.errors
    this.retryAfterSeconds = options.retryAfterSeconds
    this.allow = options.allow
  }
}

/**
 * The Problem that stands for any thrown value: itself, or its cause. Faults of the disk and the database have Problems
 * of their own; whatever else is thrown is a bug, of which the client learns no more than that.
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
  const isUnreachable = unreachableDatabaseCodes.has(code) || code.startsWith('08')
  if (isUnreachable || errcode === sqliteBusy || isLostConnection(error)) {
    return new Problem('database_unavailable', 'The database does not answer; try again.', {
      cause: error,
      retryAfterSeconds: 5,
    })
  }
  if (undoneTransactionCodes.has(code)) {
    const detail =
      'The database was changed by somebody else meanwhile; nothing was done, try again.'
    return new Problem('database_unavailable', detail, { cause: error, retryAfterSeconds: 1 })
  }
  return new Problem('internal_error', 'The server failed; the fault is in its log.', {
    cause: error,
  })
}

/** A thrown value that is a Problem, or has one as its cause. */
export function problemIn(error: unknown): Problem | undefined {
  if (error instanceof Problem) return error
  return error instanceof Error && error.cause instanceof Problem ? error.cause : undefined
}

// SQLite result codes: https://sqlite.org/rescode.html. PostgreSQL error codes: its manual, appendix A.
const sqliteFull = 13
const fullDiskCodes = new Set(['ENOSPC', 'EDQUOT', '53100'])
const unreachableDatabaseCodes = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  '53300',
  '57P01',
  '57P02',
  '57P03',
])

// Serialization failure and deadlock: all that the transaction did is undone, and it may be tried again.
const undoneTransactionCodes = new Set(['40001', '40P01'])

// The PostgreSQL client gives these faults of its own no code.
function isLostConnection(error: unknown): boolean {
  const lost =
    /^(timeout exceeded when trying to connect|Query read timeout|Connection terminated|Client has encountered a connection error)/
  return error instanceof Error && lost.test(error.message)
}

function codesOf(error: unknown): { code: string; errcode: number | undefined } {
  if (!(error instanceof Error)) return { code: '', errcode: undefined }
  const code = 'code' in error && typeof error.code === 'string' ? error.code : ''
  const errcode =
    'errcode' in error && typeof error.errcode === 'number' ? error.errcode : undefined
  return { code, errcode }
}
