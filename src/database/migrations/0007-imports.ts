import type { Migration } from './migration.ts'

// A failed import has no repository; its row is kept for a while to show the error.
export const importsTable: Migration = ({ milliseconds }) => [
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
