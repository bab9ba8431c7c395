import type { Migration } from './migration.ts'

// A run and its queue are one row: `queued`, then `running` under a lease, then `completed`. Jobs, steps and
// output belong to an attempt; former attempts of a rerun have a separate table.
export const runsTables: Migration = ({ milliseconds, sequence }) => [
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
