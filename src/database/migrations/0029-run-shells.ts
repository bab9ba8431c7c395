import type { Migration } from './migration.ts'

// A run has at most one shell that has not ended.
export const runShellsTables: Migration = ({ bytes, milliseconds, sequence }) => [
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
