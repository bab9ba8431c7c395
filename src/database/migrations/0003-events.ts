import type { Migration } from './migration.ts'

// Events outlive their repository: its deletion is one of them. The mark `events` numbers them:
// its row is locked until the publishing transaction commits, so numbers appear in order, without gaps.
export const eventsTables: Migration = ({ milliseconds, sequence }) => [
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
