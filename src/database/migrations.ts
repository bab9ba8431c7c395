/** The few types that differ between SQLite and PostgreSQL. `ordinal` is a text that is compared by its bytes. */
export type ColumnTypes = {
  milliseconds: string
  sequence: string
  bytes: string
  ordinal: string
}

/** Statements, run in order in one transaction. A released migration never changes; fix it with a new one. */
export type Migration = (types: ColumnTypes) => string[]

// Tokens are looked up by their hash at every request, and by username when an owner is named.
const tokensTable: Migration = ({ milliseconds }) => [
  `create table tokens (
    id           text primary key,
    name         text not null,
    token_hash   text not null unique,
    username     text not null,
    permissions  text not null,
    created_at   ${milliseconds} not null,
    expires_at   ${milliseconds},
    last_used_at ${milliseconds}
  )`,
  'create index tokens_by_username on tokens (username)',
]

// The owner's token may be deleted while the repository stays, so it is no foreign key.
const repositoriesTables: Migration = ({ milliseconds }) => [
  `create table repositories (
    id             text primary key,
    name           text not null,
    name_key       text not null unique,
    owner_token_id text not null,
    owner_username text not null,
    created_at     ${milliseconds} not null
  )`,
  'create index repositories_by_owner on repositories (owner_username)',
  `create table protections (
    repository_id text not null references repositories (id) on delete cascade,
    branch        text not null,
    created_at    ${milliseconds} not null,
    primary key (repository_id, branch)
  )`,
  `create table collaborators (
    repository_id text not null references repositories (id) on delete cascade,
    username      text not null,
    created_at    ${milliseconds} not null,
    primary key (repository_id, username)
  )`,
  'create index collaborators_by_username on collaborators (username)',
]

// Events outlive their repository: its deletion is one of them. The mark `events` numbers them:
// its row is locked until the publishing transaction commits, so numbers appear in order, without gaps.
const eventsTables: Migration = ({ milliseconds, sequence }) => [
  `create table marks (
    name  text primary key,
    value ${milliseconds} not null default 0
  )`,
  `insert into marks (name, value) values ('events', 0)`,
  `create table events (
    seq            ${sequence} primary key,
    kind           text not null,
    repository_id  text,
    actor_id       text not null,
    actor_username text not null,
    data           text not null,
    created_at     ${milliseconds} not null
  )`,
  'create index events_by_repository on events (repository_id, seq)',
]

const pushesTable: Migration = ({ milliseconds }) => [
  `create table pushes (
    id             text primary key,
    repository_id  text not null references repositories (id) on delete cascade,
    actor_id       text not null,
    actor_username text not null,
    updates        text not null,
    judged_at      ${milliseconds} not null,
    finished_at    ${milliseconds}
  )`,
  'create index pushes_by_repository on pushes (repository_id, id)',
  'create index pushes_unfinished on pushes (id) where finished_at is null',
]

// A database and a data directory belong together by this id.
const instanceTable: Migration = () => ['create table instance (id text primary key)']

// A key is looked up by its fingerprint at each login, and belongs to one username.
const sshKeysTable: Migration = ({ milliseconds }) => [
  `create table ssh_keys (
    id           text primary key,
    username     text not null,
    name         text not null,
    public_key   text not null,
    key_type     text not null,
    fingerprint  text not null unique,
    permissions  text not null,
    created_at   ${milliseconds} not null,
    last_used_at ${milliseconds}
  )`,
  'create index ssh_keys_by_username on ssh_keys (username, id)',
]

// A failed import has no repository; its row is kept for a while to show the error.
const importsTable: Migration = ({ milliseconds }) => [
  `alter table repositories add column state text not null default 'ready'`,
  `create table imports (
    repository_id  text primary key,
    name           text not null,
    name_key       text not null,
    owner_token_id text not null,
    owner_username text not null,
    source         text not null,
    phase          text not null,
    progress       integer not null,
    fault_code     text,
    fault_detail   text,
    started_at     ${milliseconds} not null,
    ended_at       ${milliseconds}
  )`,
  'create index imports_by_name on imports (name_key)',
]

// The state of maintenance of each repository. The mark `maintenance` is the last event whose pushes are counted. A lease
// keeps two servers from maintaining the same repository, and expires.
const maintenanceTable: Migration = ({ milliseconds }) => [
  `create table maintenance (
    repository_id text primary key references repositories (id) on delete cascade,
    pushes        integer not null default 0,
    pushed_at     ${milliseconds},
    is_unpruned   integer not null default 1,
    wanted        text not null default '',
    wanted_at     ${milliseconds} not null default 0,
    lease_holder  text,
    lease_until   ${milliseconds} not null default 0,
    started_at    ${milliseconds} not null default 0,
    finished_at   ${milliseconds},
    pruned_at     ${milliseconds} not null default 0,
    report        text,
    failures      integer not null default 0,
    fault         text,
    not_before    ${milliseconds} not null default 0
  )`,
  `create index maintenance_wanted on maintenance (wanted) where wanted <> ''`,
  `insert into marks (name, value) values ('maintenance', 0)`,
]

// A secret is looked up by its name within its repository. Each row names the key that it is sealed with, so
// that one query finds all keys in use.
const secretsTable: Migration = ({ bytes, milliseconds }) => [
  `create table secrets (
    id            text primary key,
    repository_id text not null references repositories (id) on delete cascade,
    name          text not null,
    sealed_value  ${bytes} not null,
    key_id        text not null,
    created_at    ${milliseconds} not null,
    updated_at    ${milliseconds} not null,
    unique (repository_id, name)
  )`,
  'create index secrets_by_key on secrets (key_id, id)',
]

// A run and its queue are one row: `queued`, then `running` under a lease, then `completed`. Jobs, steps and
// output belong to an attempt; former attempts of a rerun have a separate table.
const runsTables: Migration = ({ milliseconds, sequence }) => [
  `create table runs (
    id             text primary key,
    repository_id  text not null references repositories (id) on delete cascade,
    number         integer not null,
    name           text not null,
    branch         text not null,
    ref            text not null,
    commit_id      text not null,
    event          text not null,
    payload        text not null,
    inputs         text not null,
    files          text not null,
    sources        text not null,
    labels         text not null,
    secret_names   text,
    actor_id       text not null,
    actor_username text not null,
    status         text not null,
    conclusion     text,
    fault          text not null default '',
    attempt        integer not null default 1,
    created_at     ${milliseconds} not null,
    queued_at      ${milliseconds} not null,
    started_at     ${milliseconds},
    completed_at   ${milliseconds},
    isolation      text not null default '',
    cancel_reason  text,
    cancelled_at   ${milliseconds},
    runner         text not null default '',
    lease_until    ${milliseconds} not null default 0,
    token_hash     text unique,
    losses         integer not null default 0,
    entries        integer not null default 0,
    log_bytes      ${sequence} not null default 0,
    kept           text not null default '[]',
    unique (repository_id, number)
  )`,
  'create index runs_listed on runs (repository_id, id)',
  // By repository or for all: queued and running runs, which are few, and runs that ended long ago.
  'create index runs_status on runs (status, completed_at)',
  `create table run_numbers (
    repository_id text primary key references repositories (id) on delete cascade,
    last          integer not null
  )`,
  `create table run_groups (
    run_id text not null references runs (id) on delete cascade,
    name   text not null,
    primary key (run_id, name)
  )`,
  'create index run_groups_name on run_groups (name)',
  `create table run_attempts (
    run_id         text not null references runs (id) on delete cascade,
    attempt        integer not null,
    actor_username text not null,
    conclusion     text not null,
    fault          text not null,
    isolation      text not null,
    started_at     ${milliseconds},
    completed_at   ${milliseconds} not null,
    log_bytes      ${sequence} not null,
    primary key (run_id, attempt)
  )`,
  `create table run_jobs (
    run_id       text not null references runs (id) on delete cascade,
    attempt      integer not null,
    job          integer not null,
    file         text not null,
    workflow     text not null,
    job_id       text not null,
    name         text not null,
    matrix       text not null,
    status       text not null,
    conclusion   text,
    fault        text not null default '',
    outputs      text not null default '{}',
    started_at   ${milliseconds},
    completed_at ${milliseconds},
    primary key (run_id, attempt, job)
  )`,
  `create table run_steps (
    run_id       text not null references runs (id) on delete cascade,
    attempt      integer not null,
    step         integer not null,
    job          integer not null,
    name         text not null,
    status       text not null,
    conclusion   text,
    exit_code    integer,
    fault        text not null default '',
    summary      text not null default '',
    tail         text not null default '',
    started_at   ${milliseconds},
    completed_at ${milliseconds},
    primary key (run_id, attempt, step)
  )`,
  // The original text, and the prefix of each of its lines in the log of the run. `start` is the offset in the log, in
  // bytes of UTF-8 with prefixes.
  `create table run_logs (
    run_id  text not null references runs (id) on delete cascade,
    attempt integer not null,
    start   ${sequence} not null,
    size    integer not null,
    step    integer,
    prefix  text not null,
    text    text not null,
    primary key (run_id, attempt, start)
  )`,
  `create table schedules (
    repository_id  text not null references repositories (id) on delete cascade,
    file           text not null,
    cron           text not null,
    timezone       text not null,
    actor_id       text not null,
    actor_username text not null,
    next_at        ${milliseconds} not null,
    primary key (repository_id, file, cron, timezone)
  )`,
  'create index schedules_next on schedules (next_at)',
  // Existing pushes start no runs.
  `insert into marks (name, value) select 'workflows', value from marks where name = 'events'`,
]

// Webhooks and their deliveries. Bodies and attempts are long and have separate tables, so that listing deliveries reads
// short rows. `due_at` of a webhook is never later than that of its deliveries, so that few rows show what is due.
const webhooksTables: Migration = ({ milliseconds, sequence, bytes }) => [
  `create table webhooks (
    id              text primary key,
    repository_id   text not null references repositories (id) on delete cascade,
    url             text not null,
    events          text not null,
    receiver        text not null,
    created_at      ${milliseconds} not null,
    updated_at      ${milliseconds} not null,
    is_enabled      integer not null default 1,
    failing_since   ${milliseconds},
    disabled_at     ${milliseconds},
    disabled_reason text not null default '',
    last_seq        ${sequence} not null default 0,
    due_at          ${milliseconds},
    deleted_at      ${milliseconds}
  )`,
  'create index webhooks_by_repository on webhooks (repository_id, id)',
  'create index webhooks_due on webhooks (due_at) where due_at is not null',
  'create index webhooks_deleted on webhooks (deleted_at) where deleted_at is not null',
  `create table webhook_secrets (
    id            text primary key,
    webhook_id    text not null references webhooks (id) on delete cascade,
    repository_id text not null,
    sealed_value  ${bytes} not null,
    key_id        text not null,
    created_at    ${milliseconds} not null,
    expires_at    ${milliseconds}
  )`,
  'create index webhook_secrets_by_webhook on webhook_secrets (webhook_id, id)',
  `create table deliveries (
    id              text primary key,
    webhook_id      text not null references webhooks (id) on delete cascade,
    repository_id   text not null,
    event           text not null,
    seq             ${sequence},
    previous_seq    ${sequence},
    url             text not null,
    status          text not null,
    attempts        integer not null default 0,
    created_at      ${milliseconds} not null,
    due_at          ${milliseconds},
    lease_until     ${milliseconds} not null default 0,
    lease_holder    text not null default '',
    is_wanted       integer not null default 0,
    last_attempt_at ${milliseconds},
    completed_at    ${milliseconds},
    response_status integer,
    duration        integer,
    fault           text not null default '',
    unique (webhook_id, seq)
  )`,
  'create index deliveries_listed on deliveries (webhook_id, id)',
  'create index deliveries_listed_by_status on deliveries (webhook_id, status, id)',
  'create index deliveries_listed_by_event on deliveries (webhook_id, event, id)',
  `create index deliveries_due on deliveries (webhook_id, due_at, id) where status = 'pending'`,
  `create table delivery_bodies (
    delivery_id text primary key references deliveries (id) on delete cascade,
    body        text not null
  )`,
  `create table delivery_attempts (
    delivery_id     text not null references deliveries (id) on delete cascade,
    attempt         integer not null,
    is_manual       integer not null,
    started_at      ${milliseconds} not null,
    duration        integer not null,
    url             text not null,
    request_headers text not null,
    response_status integer,
    response_headers text not null,
    response_body   text not null,
    fault           text not null,
    primary key (delivery_id, attempt)
  )`,
  // The transport of a push, and until when the commits that it overwrote are retained under hidden refs.
  `alter table pushes add column door text not null default ''`,
  `alter table pushes add column kept_until ${milliseconds}`,
  // The push that was undone by this one.
  'alter table pushes add column undoes text',
  'create index pushes_finished on pushes (finished_at) where finished_at is not null',
  'create index pushes_kept on pushes (kept_until) where kept_until is not null',
]

// Existing keys never expire.
export const sshKeyExpiry: Migration = ({ milliseconds }) => [
  `alter table ssh_keys add column expires_at ${milliseconds}`,
]

// A change of the default branch, recorded before HEAD moves: in the row of the push that causes it, or in a separate row
// without updates that is deleted once HEAD has moved.
const defaultBranchColumns: Migration = () => [
  'alter table pushes add column former_default_branch text',
  'alter table pushes add column default_branch text',
]

// The transport of a push, under its name in the API.
const pushVia: Migration = () => ['alter table pushes rename column door to via']

// Only a shared store fills these tables: without one, refs and packs are files.
export const sharedStoreTables: Migration = ({ milliseconds, sequence, bytes, ordinal }) => [
  `alter table repositories add column version ${sequence} not null default 0`,
  `alter table repositories add column prune_epoch ${sequence} not null default 0`,
  'alter table repositories add column head text',
  `alter table pushes add column version ${sequence}`,
  "alter table imports add column node text not null default ''",
  `create table refs (
    repository_id text not null references repositories (id) on delete cascade,
    name          ${ordinal} not null,
    object_id     text not null,
    peeled_id     text,
    primary key (repository_id, name)
  )`,
  `create table packs (
    key                text primary key,
    repository_id      text not null references repositories (id) on delete cascade,
    hash               text not null,
    pack_bytes         ${sequence} not null,
    pack_sha256        text not null,
    idx_bytes          ${sequence} not null,
    idx_sha256         text not null,
    pack               ${bytes},
    idx                ${bytes},
    added_at_version   ${sequence} not null,
    retired_at_version ${sequence},
    retired_at         ${milliseconds}
  )`,
  'create unique index packs_live on packs (repository_id, hash) where retired_at_version is null',
  'create index packs_by_repository on packs (repository_id)',
  `create table uploads (
    key      text primary key,
    node     text not null,
    begun_at ${milliseconds} not null,
    state    text not null
  )`,
  `create table nodes (
    id      text primary key,
    epoch   ${sequence} not null,
    seen_at ${milliseconds} not null
  )`,
]

// Maintenance of a shared store keeps the times of unreachable objects with their packs.
const packMtimes: Migration = ({ sequence, bytes }) => [
  `alter table packs add column mtimes_bytes ${sequence}`,
  'alter table packs add column mtimes_sha256 text',
  `alter table packs add column mtimes ${bytes}`,
]

// Existing tokens have no limits.
const tokenLimits: Migration = () => [
  'alter table tokens add column repositories text',
  'alter table tokens add column refs text',
  'alter table tokens add column delegated_from text',
  'alter table tokens add column delegation_root text',
  'create index tokens_by_delegation on tokens (delegated_from)',
  'create index tokens_by_delegation_root on tokens (delegation_root)',
]

// A deleted repository keeps its rows until it is purged. Its name is free at once: its key is then none of a name.
const deletedRepositories: Migration = ({ milliseconds }) => [
  `alter table repositories add column deleted_at ${milliseconds}`,
  'create index repositories_deleted on repositories (deleted_at) where deleted_at is not null',
]

// `pushed_at` is when the last push was received, or undo was requested.
const repositoryDetails: Migration = ({ milliseconds }) => [
  "alter table repositories add column description text not null default ''",
  `alter table repositories add column pushed_at ${milliseconds}`,
  `update repositories set pushed_at = (
    select max(judged_at) from pushes
    where pushes.repository_id = repositories.id and finished_at is not null and updates <> '[]'
  )`,
]

const roleColumn: Migration = () => [
  "alter table collaborators add column role text not null default 'write'",
]

// Existing protections let owners do everything. `requires` is a JSON array of paths of workflow files.
const protectionRules: Migration = () => [
  "alter table protections add column owners text not null default 'any'",
  "alter table protections add column requires text not null default '[]'",
]

// The mark `audit` numbers the entries; its row is changed only while that of `events` is locked. Each entry has the
// hash of the one before it in its own: see events/audit/entry-hash.ts.
const auditTable: Migration = ({ milliseconds, sequence }) => [
  `insert into marks (name, value) values ('audit', 0)`,
  `create table audit (
    seq            ${sequence} primary key,
    created_at     ${milliseconds} not null,
    action         text not null,
    actor_id       text not null,
    actor_username text not null,
    via            text not null,
    address        text,
    repository_id  text,
    data           text not null,
    hash           text not null
  )`,
  'create index audit_by_time on audit (created_at)',
  // The client of a push, for its entry.
  'alter table pushes add column address text',
]

// The key of the ids of findings, in one row. `allowed_leaks` is a JSON array of the findings that a push contains.
const leakGuard: Migration = () => [
  "alter table repositories add column leak_guard text not null default 'on'",
  'alter table pushes add column allowed_leaks text',
  `create table leak_guard_keys (
    id  integer not null primary key,
    key text not null
  )`,
]

// A session of the pages has the rights of a token or an SSH key, and ends with it. Secrets and codes are hashed.
const sessionsTables: Migration = ({ milliseconds }) => [
  `create table sessions (
    id             text not null primary key,
    secret_hash    text not null unique,
    token_id       text references tokens (id) on delete cascade,
    ssh_key_id     text references ssh_keys (id) on delete cascade,
    username       text not null,
    user_agent     text not null,
    created_at     ${milliseconds} not null,
    seen_at        ${milliseconds} not null,
    expires_at     ${milliseconds} not null,
    unlocked_until ${milliseconds} not null
  )`,
  'create index sessions_by_username on sessions (username, id)',
  'create index sessions_by_expiry on sessions (expires_at)',
  'create index sessions_by_token on sessions (token_id)',
  'create index sessions_by_ssh_key on sessions (ssh_key_id)',
  `create table login_codes (
    code_hash  text not null primary key,
    token_id   text references tokens (id) on delete cascade,
    ssh_key_id text references ssh_keys (id) on delete cascade,
    expires_at ${milliseconds} not null
  )`,
  'create index login_codes_by_token on login_codes (token_id)',
  'create index login_codes_by_ssh_key on login_codes (ssh_key_id)',
]

// `run_options` is a JSON object: what a push says about its runs. `awaited_by` is the server on which a push waits for a
// run, and `awaited_pack` with a shared store the pack that has the commit until then.
const pushRuns: Migration = () => [
  'alter table pushes add column run_options text',
  'alter table runs add column awaited_by text',
  'alter table runs add column awaited_pack text',
]

// In the order in which the steps of an attempt wrote them. They are shown beside the lines of the run's commit.
const runAnnotations: Migration = () => [
  `create table run_annotations (
    run_id     text not null references runs (id) on delete cascade,
    attempt    integer not null,
    number     integer not null,
    step       integer not null,
    level      text not null,
    file       text not null,
    line       integer,
    end_line   integer,
    col        integer,
    end_col    integer,
    title      text not null,
    message    text not null,
    primary key (run_id, attempt, number)
  )`,
  'create index runs_commit on runs (repository_id, commit_id)',
]

// `run_files` has a row for each file from before it exists until after it is removed, so none is unknown. It
// refers to nothing, because a file outlives the rows of its repository for a while. `artifacts` and `run_caches` say what
// the files are; one that neither of them has is removed.
export const runFilesTables: Migration = ({ milliseconds, sequence }) => [
  `create table run_files (
    id            text primary key,
    repository_id text not null,
    node          text not null,
    state         text not null,
    size          ${sequence} not null,
    sha256        text not null,
    changed_at    ${milliseconds} not null
  )`,
  'create index run_files_state on run_files (state, changed_at)',
  `create table artifacts (
    id            text primary key references run_files (id),
    repository_id text not null references repositories (id) on delete cascade,
    run_id        text not null references runs (id) on delete cascade,
    attempt       integer not null,
    name          text not null,
    created_at    ${milliseconds} not null,
    expires_at    ${milliseconds} not null,
    unique (run_id, attempt, name)
  )`,
  'create index artifacts_by_repository on artifacts (repository_id)',
  'create index artifacts_by_expiry on artifacts (expires_at)',
  `create table run_caches (
    id            text primary key references run_files (id),
    repository_id text not null references repositories (id) on delete cascade,
    ref           text not null,
    is_protected  integer not null,
    version       text not null,
    key           text not null,
    created_at    ${milliseconds} not null,
    used_at       ${milliseconds} not null,
    unique (repository_id, ref, version, key, is_protected)
  )`,
  'create index run_caches_by_use on run_caches (used_at)',
]

// The tokens of jobs are valid while `claim` is the token hash of their running run. `run_tokens` is the most that they
// may do in the repository. Signing keys sign ID tokens; the private half is sealed.
const jobTokens: Migration = ({ bytes, milliseconds }) => [
  "alter table repositories add column run_tokens text not null default 'read'",
  "alter table runs add column grants text not null default '[]'",
  `create table job_tokens (
    token_hash text not null primary key,
    run_id     text not null references runs (id) on delete cascade,
    claim      text not null,
    file       text not null,
    workflow   text not null,
    job_file   text not null,
    rights     text not null
  )`,
  'create index job_tokens_by_run on job_tokens (run_id)',
  `create table signing_keys (
    id             text not null primary key,
    public_key     text not null,
    sealed_private ${bytes} not null,
    key_id         text not null,
    created_at     ${milliseconds} not null
  )`,
]

// A run has at most one shell that has not ended.
const runShellsTables: Migration = ({ bytes, milliseconds, sequence }) => [
  `create table failed_workspaces (
    id            text not null primary key,
    run_id        text not null references runs (id) on delete cascade,
    repository_id text not null,
    attempt       integer not null,
    job           text not null,
    runner        text not null,
    holder        text not null,
    kept_ms       ${milliseconds} not null,
    seen_at       ${milliseconds} not null,
    removed_at    ${milliseconds}
  )`,
  'create index failed_workspaces_by_run on failed_workspaces (run_id, attempt)',
  'create index failed_workspaces_by_repository on failed_workspaces (repository_id)',
  'create index failed_workspaces_by_holder on failed_workspaces (holder)',
  `create table run_shells (
    id              text not null primary key,
    run_id          text not null references runs (id) on delete cascade,
    repository_id   text not null,
    workspace_id    text not null,
    holder          text not null,
    actor_id        text not null,
    actor_username  text not null,
    terminal_columns integer,
    terminal_rows    integer,
    term            text not null,
    opened_at       ${milliseconds} not null,
    started_at      ${milliseconds},
    user_seen_at    ${milliseconds} not null,
    runner_seen_at  ${milliseconds} not null,
    input_size      ${sequence} not null,
    input_read      ${sequence} not null,
    output_size     ${sequence} not null,
    output_read     ${sequence} not null,
    is_input_closed integer not null,
    ended_at        ${milliseconds},
    exit_code       integer,
    end_reason      text not null
  )`,
  'create unique index run_shells_open on run_shells (run_id) where ended_at is null',
  'create index run_shells_by_run on run_shells (run_id)',
  `create table run_shell_bytes (
    shell_id     text not null references run_shells (id) on delete cascade,
    direction    text not null,
    start        ${sequence} not null,
    sealed_bytes ${bytes} not null,
    primary key (shell_id, direction, start)
  )`,
]

// The default branch of an existing repository may have been chosen by its first push on purpose.
const headChosen: Migration = () => [
  'alter table repositories add column head_chosen integer not null default 1',
]

// By what a server recognizes that it belongs to the service: the bucket that is marked with the id of the service, the
// id of the encryption key, and of each node that runs its data directory and the fingerprint of its SSH host key.
const serviceIdentity: Migration = () => [
  'alter table instance add column bucket text',
  'alter table instance add column key_id text',
  "alter table nodes add column place text not null default ''",
  "alter table nodes add column host_key text not null default ''",
]

// `actor_id` is overwritten by a rerun; `cause_id` is not.
const runCauses: Migration = () => [
  "alter table runs add column cause_id text not null default ''",
  'update runs set cause_id = actor_id',
]

// A name that a rename has freed leads to its repository for a while, and is reserved for the owner. The key is in lower case.
const formerNames: Migration = ({ milliseconds }) => [
  `create table former_names (
    name_key      text primary key,
    name          text not null,
    repository_id text not null references repositories (id) on delete cascade,
    freed_at      ${milliseconds} not null
  )`,
  'create index former_names_by_repository on former_names (repository_id)',
]

// The number of migrations that the oldest server knows that can run on these tables.
export const oldestServer: Migration = () => [
  'alter table schema_version add column oldest_server integer not null default 0',
]

// Whether a job failed and its run goes on, so that it is not why the run failed.
const toleratedJobs: Migration = () => [
  'alter table run_jobs add column tolerated integer not null default 0',
]

// When a repository was imported; null for one that was created empty, or imported before.
const importedAt: Migration = ({ milliseconds }) => [
  `alter table repositories add column imported_at ${milliseconds}`,
]

// How many objects of Git LFS the files of an imported repository name, none of which were imported.
const missingLfsObjects: Migration = () => [
  'alter table repositories add column missing_lfs_objects integer not null default 0',
]

// The objects of Git LFS of each repository. A row is inserted when the bytes are durable, and makes them an object.
const lfsObjects: Migration = ({ milliseconds, sequence }) => [
  `create table lfs_objects (
    repository_id text not null references repositories (id) on delete cascade,
    oid           text not null,
    size          ${sequence} not null,
    bucket_key    text,
    created_at    ${milliseconds} not null,
    renewed_at    ${milliseconds} not null,
    checked_at    ${milliseconds} not null,
    primary key (repository_id, oid)
  )`,
  'create index lfs_objects_by_check on lfs_objects (checked_at)',
]

// Tokens of SSH keys for transfers of Git LFS over HTTP.
const lfsTokens: Migration = ({ milliseconds }) => [
  `create table lfs_tokens (
    token_hash    text primary key,
    repository_id text not null references repositories (id) on delete cascade,
    permission    text not null,
    key_id        text,
    address       text not null,
    expires_at    ${milliseconds} not null
  )`,
  'create index lfs_tokens_by_expiry on lfs_tokens (expires_at)',
]

// Locks of Git LFS. Their number in the row of the repository spares pushes to repositories without locks a statement.
const lfsLocks: Migration = ({ milliseconds }) => [
  `create table lfs_locks (
    id            text primary key,
    repository_id text not null references repositories (id) on delete cascade,
    path          text not null,
    username      text not null,
    locked_at     ${milliseconds} not null,
    unique (repository_id, path)
  )`,
  'alter table repositories add column lfs_locks integer not null default 0',
]

// Null while a repository is empty and nothing has decided it. Servers before had SHA-1 alone.
const objectFormat: Migration = () => [
  'alter table repositories add column object_format text',
  "update repositories set object_format = 'sha1'",
]

// A user is as old as its first token, key or repository, and has the id of that.
const usersTable: Migration = ({ milliseconds }) => [
  `create table users (
    id           text not null primary key,
    username     text not null unique,
    display_name text not null,
    email        text not null,
    created_at   ${milliseconds} not null,
    last_seen_at ${milliseconds},
    disabled_at  ${milliseconds}
  )`,
  `insert into users
   select min(id), username, '', '', min(created_at), max(last_used_at), null
   from (
     select id, username, created_at, last_used_at from tokens
     union all select id, username, created_at, last_used_at from ssh_keys
     union all select id, owner_username, created_at, null from repositories
   ) named
   group by username`,
]

// People who log in by an identity provider: each login is of one user, and its tokens end with it. `refresh_token` is
// sealed, and `next_check_at` is when it is used next. `login_ended_at` is since when the provider has not vouched for a
// user. An attempt is a login whose browser is at the provider; a row of `cli_logins` is a command line that waits for a
// browser. Secrets and codes are hashed.
const loginsTables: Migration = ({ bytes, milliseconds }) => [
  `alter table users add column source text not null default 'token'`,
  `alter table users add column login_ended_at ${milliseconds}`,
  `create table logins (
    id            text not null primary key,
    username      text not null,
    issuer        text not null,
    subject       text not null,
    is_admin      integer not null,
    created_at    ${milliseconds} not null,
    last_login_at ${milliseconds},
    checked_at    ${milliseconds},
    next_check_at ${milliseconds},
    refresh_token ${bytes},
    unique (issuer, subject)
  )`,
  'create index logins_by_username on logins (username)',
  'create index logins_by_next_check on logins (next_check_at)',
  'alter table tokens add column login_id text references logins (id) on delete cascade',
  'create index tokens_by_login on tokens (login_id)',
  `create table user_groups (
    username text not null,
    name     text not null,
    primary key (username, name)
  )`,
  'create index user_groups_by_name on user_groups (name)',
  `create table login_attempts (
    state_hash    text not null primary key,
    browser_hash  text not null,
    nonce         text not null,
    code_verifier text not null,
    session_id    text,
    next          text not null,
    expires_at    ${milliseconds} not null
  )`,
  'create index login_attempts_by_expiry on login_attempts (expires_at)',
  `create table cli_logins (
    code_hash  text not null primary key,
    challenge  text not null,
    machine    text not null,
    address    text not null,
    token_id   text references tokens (id) on delete cascade,
    expires_at ${milliseconds} not null
  )`,
  'create index cli_logins_by_token on cli_logins (token_id)',
  'create index cli_logins_by_expiry on cli_logins (expires_at)',
]

// The ids of the repositories of a deploy key, as JSON. Existing keys are not limited.
const deployKeys: Migration = () => ['alter table ssh_keys add column repositories text']

// Servers that do not know it treat every repository as private.
const visibility: Migration = () => [
  "alter table repositories add column visibility text not null default 'private'",
  'create index repositories_by_visibility on repositories (visibility)',
]

// The uploads to the bucket that clients announce are limited for each repository.
const announcedUploads: Migration = () => [
  'alter table uploads add column repository_id text',
  'create index uploads_by_repository on uploads (repository_id) where repository_id is not null',
]

// `claims` is a JSON object of patterns, `refs` a JSON list or null. A token of a workload ends with its rule.
const trustRules: Migration = ({ milliseconds }) => [
  `create table trust_rules (
    id              text primary key,
    name            text not null,
    username        text not null,
    issuer          text not null,
    audience        text not null,
    claims          text not null,
    refs            text,
    permissions     text not null,
    created_at      ${milliseconds} not null,
    last_used_at    ${milliseconds},
    last_refused_at ${milliseconds},
    last_refusal    text
  )`,
  'create index trust_rules_by_username on trust_rules (username, id)',
  'create index trust_rules_by_issuer on trust_rules (issuer)',
  `create table trust_rule_repositories (
    rule_id       text not null references trust_rules (id) on delete cascade,
    repository_id text not null references repositories (id) on delete cascade,
    primary key (rule_id, repository_id)
  )`,
  'create index trust_rules_by_repository on trust_rule_repositories (repository_id, rule_id)',
  `create table workload_tokens (
    id         text primary key,
    token_hash text not null unique,
    rule_id    text not null references trust_rules (id) on delete cascade,
    subject    text not null,
    expires_at ${milliseconds} not null
  )`,
  'create index workload_tokens_by_rule on workload_tokens (rule_id)',
  'create index workload_tokens_by_expiry on workload_tokens (expires_at)',
]

// Names are those of before, so no namespace has one of them yet. Those of repositories may now have a slash, so the keys of
// deleted ones, which are no names, have two.
const namespacesTables: Migration = ({ milliseconds }) => [
  `create table namespaces (
    id         text primary key,
    name       text not null,
    name_key   text not null unique,
    created_at ${milliseconds} not null
  )`,
  `create table namespace_members (
    namespace_id text not null references namespaces (id) on delete cascade,
    member       text not null,
    role         text not null,
    created_at   ${milliseconds} not null,
    primary key (namespace_id, member)
  )`,
  'create index namespace_members_by_member on namespace_members (member)',
  'alter table repositories add column namespace_id text references namespaces (id)',
  'create index repositories_by_namespace on repositories (namespace_id) where namespace_id is not null',
  "update repositories set name_key = 'deleted//' || id where deleted_at is not null",
]

// What a repository or a namespace has, its scope, refers to it without a constraint, since these are two tables.
const namespaceSecrets: Migration = ({ bytes, milliseconds }) => [
  'alter table secrets rename to repository_secrets',
  `create table secrets (
    id           text primary key,
    scope_id     text not null,
    name         text not null,
    sealed_value ${bytes} not null,
    key_id       text not null,
    created_at   ${milliseconds} not null,
    updated_at   ${milliseconds} not null,
    unique (scope_id, name)
  )`,
  `insert into secrets (id, scope_id, name, sealed_value, key_id, created_at, updated_at)
    select id, repository_id, name, sealed_value, key_id, created_at, updated_at from repository_secrets`,
  'drop table repository_secrets',
  'create index secrets_by_key on secrets (key_id, id)',
]

// Limits of namespaces, in a table of their own so that what adds bytes locks nothing that a rename locks. The sizes of packs are
// unknown until they are measured, unless they are rows.
const namespaceLimits: Migration = ({ sequence }) => [
  `create table namespace_limits (
    namespace_id     text primary key references namespaces (id) on delete cascade,
    max_repositories integer,
    max_bytes        ${sequence}
  )`,
  `create table namespace_days (
    namespace_id   text not null references namespaces (id) on delete cascade,
    day            text not null,
    pushes         ${sequence} not null,
    fetches        ${sequence} not null,
    received_bytes ${sequence} not null,
    sent_bytes     ${sequence} not null,
    run_ms         ${sequence} not null,
    primary key (namespace_id, day)
  )`,
  'create index namespace_days_by_day on namespace_days (day)',
  `alter table repositories add column pack_bytes ${sequence}`,
  `alter table repositories add column lfs_bytes ${sequence} not null default 0`,
  'create index repositories_unmeasured on repositories (id) where pack_bytes is null',
  `update repositories set
    pack_bytes = (select sum(pack_bytes + idx_bytes + coalesce(mtimes_bytes, 0)) from packs
      where packs.repository_id = repositories.id and retired_at_version is null),
    lfs_bytes = coalesce((select sum(size) from lfs_objects where repository_id = repositories.id), 0)`,
  `alter table pushes add column bytes ${sequence} not null default 0`,
]

// A column of a referenced table is replaced, since SQLite cannot drop its constraint.
const namespaceWebhooks: Migration = () => [
  "alter table webhooks add column scope_id text not null default ''",
  'update webhooks set scope_id = repository_id',
  'drop index webhooks_by_repository',
  'alter table webhooks drop column repository_id',
  'create index webhooks_by_scope on webhooks (scope_id, id)',
  'alter table webhook_secrets rename column repository_id to scope_id',
]

const namespaceProtections: Migration = ({ milliseconds }) => [
  'alter table protections rename to repository_protections',
  `create table protections (
    scope_id   text not null,
    branch     text not null,
    created_at ${milliseconds} not null,
    owners     text not null default 'any',
    requires   text not null default '[]',
    primary key (scope_id, branch)
  )`,
  `insert into protections (scope_id, branch, created_at, owners, requires)
    select repository_id, branch, created_at, owners, requires from repository_protections`,
  'drop table repository_protections',
]

// Without a refresh token, which is when `next_check_at` is null, the tokens of a login last 12 hours.
const uncheckedEnd = '(select last_login_at + 43200000 from logins where id = tokens.login_id)'
const uncheckedLogins: Migration = () => [
  `update tokens set expires_at = ${uncheckedEnd}
   where login_id in (
     select id from logins where next_check_at is null and last_login_at is not null
   ) and (expires_at is null or expires_at > ${uncheckedEnd})`,
]

// A rule of a namespace is for all of its repositories, or for those in `trust_rule_repositories` that are in it.
const namespaceTrustRules: Migration = () => [
  'alter table trust_rules add column namespace_id text references namespaces (id) on delete cascade',
  'alter table trust_rules add column covers_all integer not null default 0',
  'create index trust_rules_by_namespace on trust_rules (namespace_id) where namespace_id is not null',
]

const failingLogins: Migration = ({ milliseconds }) => [
  `alter table logins add column failing_since ${milliseconds}`,
]

// What happened before a repository came into its namespace is none of the namespace's business, and what happened there
// goes with the repository when that is purged.
const joinedNamespaces: Migration = ({ sequence }) => [
  `alter table repositories add column joined_seq ${sequence} not null default 0`,
  'create index deliveries_by_repository on deliveries (repository_id, id)',
]

// The consent to a login of a command line ends with the session in which it was given.
const cliLoginSessions: Migration = () => [
  'alter table cli_logins add column session_id text references sessions (id) on delete cascade',
  'create index cli_logins_by_session on cli_logins (session_id)',
]

// What checks from outside say of commits: the last status of each context and user.
const commitStatuses: Migration = ({ milliseconds }) => [
  `create table commit_statuses (
    id            text not null primary key,
    repository_id text not null references repositories (id) on delete cascade,
    commit_id     text not null,
    context       text not null,
    state         text not null,
    description   text not null,
    target_url    text not null,
    username      text not null,
    created_at    ${milliseconds} not null,
    unique (repository_id, commit_id, context, username)
  )`,
]

// Changes that are proposed for branches. A version is a commit with the merge base of its time; a hidden ref keeps it.
const changesTables: Migration = ({ milliseconds }) => [
  `create table changes (
    repository_id text not null references repositories (id) on delete cascade,
    number        integer not null,
    target        text not null,
    source        text not null,
    topic         text not null,
    title         text not null,
    description   text not null,
    state         text not null,
    username      text not null,
    version       integer not null,
    commit_id     text not null,
    created_at    ${milliseconds} not null,
    updated_at    ${milliseconds} not null,
    closed_at     ${milliseconds},
    closed_by     text,
    landed_id     text,
    push_id       text,
    primary key (repository_id, number)
  )`,
  "create index changes_open on changes (repository_id, target, username) where state = 'open'",
  "create index changes_by_source on changes (repository_id, source) where state = 'open' and source <> ''",
  `create table change_versions (
    repository_id text not null,
    number        integer not null,
    version       integer not null,
    commit_id     text not null,
    base_id       text not null,
    patch_id      text not null,
    username      text not null,
    created_at    ${milliseconds} not null,
    primary key (repository_id, number, version),
    foreign key (repository_id, number) references changes (repository_id, number) on delete cascade
  )`,
  // The changes that a push lands, as JSON.
  'alter table pushes add column landing text',
]

// Rules that require a status are compared with what was ever reported.
const statusContexts: Migration = () => [
  'create index commit_statuses_by_context on commit_statuses (repository_id, context, username)',
]

// What is said of changes: comments, in threads, and the last verdict of each user.
const reviewTables: Migration = ({ milliseconds }) => [
  `create table change_comments (
    id            text not null primary key,
    repository_id text not null,
    number        integer not null,
    thread_id     text not null,
    version       integer not null,
    path          text not null,
    side          text not null,
    line          integer,
    text          text not null,
    username      text not null,
    created_at    ${milliseconds} not null,
    edited_at     ${milliseconds},
    resolved_by   text,
    foreign key (repository_id, number) references changes (repository_id, number) on delete cascade
  )`,
  'create index change_comments_by_change on change_comments (repository_id, number, id)',
  `create table change_verdicts (
    repository_id text not null,
    number        integer not null,
    username      text not null,
    version       integer not null,
    verdict       text not null,
    created_at    ${milliseconds} not null,
    primary key (repository_id, number, username),
    foreign key (repository_id, number) references changes (repository_id, number) on delete cascade
  )`,
]

// Before these rules, no change was reviewed.
const reviewRules: Migration = () => [
  'alter table protections add column approvals integer not null default 0',
  'alter table protections add column code_owners integer not null default 0',
]

// Earlier servers would give secrets to runs that may have none, and execute those that wait for an approval.
const restrictedRuns: Migration = () => [
  'alter table runs add column is_restricted integer not null default 0',
  'alter table runs add column needs_approval integer not null default 0',
  "alter table change_versions add column actor_id text not null default ''",
]

// What waits for a user is listed across repositories.
const changesByUser: Migration = () => [
  "create index changes_by_user on changes (username, updated_at) where state = 'open'",
]

// Changes that wait for their turn to land, and the branches with such changes.
const landingQueue: Migration = ({ milliseconds }) => [
  'alter table protections add column queue integer not null default 0',
  "alter table changes add column queue_note text not null default ''",
  `create table queued_changes (
    repository_id text not null,
    number        integer not null,
    id            text not null,
    target        text not null,
    version       integer not null,
    method        text not null,
    message       text not null,
    actor_kind    text not null,
    actor_id      text not null,
    username      text not null,
    urgent        integer not null,
    standing      text not null,
    failures      integer not null,
    detail        text not null,
    queued_at     ${milliseconds} not null,
    primary key (repository_id, number),
    foreign key (repository_id, number) references changes (repository_id, number) on delete cascade
  )`,
  `create table branch_queues (
    repository_id text not null references repositories (id) on delete cascade,
    target        text not null,
    size          integer not null,
    work          text not null,
    revision      integer not null,
    arrivals      integer not null,
    worker        text not null,
    work_until    ${milliseconds} not null,
    primary key (repository_id, target)
  )`,
]

/**
 * All migrations, and for each whether servers that do not know it can run on. One that `adds` has only new tables, and new
 * columns that may be left out, and these servers break no rule by ignoring them. After one that `changes` they must stop:
 * they would fail, or ignore what limits access, for instance.
 */
const list: [migration: Migration, kind: 'adds' | 'changes'][] = [
  [tokensTable, 'adds'],
  [repositoriesTables, 'adds'],
  [eventsTables, 'adds'],
  [pushesTable, 'adds'],
  [instanceTable, 'adds'],
  [sshKeysTable, 'adds'],
  [importsTable, 'changes'],
  [maintenanceTable, 'adds'],
  [secretsTable, 'adds'],
  [runsTables, 'adds'],
  [webhooksTables, 'changes'],
  [sshKeyExpiry, 'changes'],
  [defaultBranchColumns, 'adds'],
  [pushVia, 'changes'],
  [sharedStoreTables, 'adds'],
  [packMtimes, 'adds'],
  [tokenLimits, 'changes'],
  [deletedRepositories, 'changes'],
  [repositoryDetails, 'changes'],
  [roleColumn, 'changes'],
  [protectionRules, 'changes'],
  [auditTable, 'changes'],
  [leakGuard, 'changes'],
  [sessionsTables, 'adds'],
  [pushRuns, 'adds'],
  [runAnnotations, 'adds'],
  [runFilesTables, 'adds'],
  [jobTokens, 'adds'],
  [runShellsTables, 'adds'],
  [headChosen, 'adds'],
  [serviceIdentity, 'adds'],
  [runCauses, 'changes'],
  [formerNames, 'changes'],
  [oldestServer, 'adds'],
  [toleratedJobs, 'adds'],
  [importedAt, 'adds'],
  [missingLfsObjects, 'adds'],
  [lfsObjects, 'adds'],
  [lfsTokens, 'adds'],
  [lfsLocks, 'changes'],
  [objectFormat, 'changes'],
  [usersTable, 'changes'],
  [loginsTables, 'changes'],
  [deployKeys, 'changes'],
  [visibility, 'adds'],
  [announcedUploads, 'adds'],
  [trustRules, 'adds'],
  [namespacesTables, 'changes'],
  [namespaceSecrets, 'changes'],
  [uncheckedLogins, 'changes'],
  [namespaceLimits, 'changes'],
  [namespaceWebhooks, 'changes'],
  [namespaceProtections, 'changes'],
  [namespaceTrustRules, 'changes'],
  [failingLogins, 'adds'],
  [joinedNamespaces, 'adds'],
  [cliLoginSessions, 'adds'],
  [commitStatuses, 'adds'],
  [changesTables, 'changes'],
  [statusContexts, 'adds'],
  [reviewTables, 'adds'],
  [reviewRules, 'changes'],
  [restrictedRuns, 'changes'],
  [changesByUser, 'adds'],
  [landingQueue, 'changes'],
]

/** The version of a database is the number of migrations that were applied. */
export const migrations: Migration[] = list.map(([migration]) => migration)

const changes = new Set(list.filter(([, kind]) => kind === 'changes').map(([one]) => one))

/** The number of migrations that a server must know at least to run on the tables of a list. */
export function oldestServerOf(wanted: readonly Migration[]): number {
  return wanted.findLastIndex((migration) => changes.has(migration)) + 1
}
