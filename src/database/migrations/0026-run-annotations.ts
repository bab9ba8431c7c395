import type { Migration } from './migration.ts'

// In the order in which the steps of an attempt wrote them. They are shown beside the lines of the run's commit.
export const runAnnotations: Migration = () => [
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
