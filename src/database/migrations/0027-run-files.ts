import type { Migration } from './migration.ts'

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
