import type { Migration } from './migration.ts'

// The mark `audit` numbers the entries; its row is changed only while that of `events` is locked. Each entry has the
// hash of the one before it in its own: see events/audit/entry-hash.ts.
export const auditTable: Migration = ({ milliseconds, sequence }) => [
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
