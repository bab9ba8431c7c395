import type { Migration } from './migration.ts'

export const pushesTable: Migration = ({ milliseconds }) => [
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
