import type { Migration } from './migration.ts'

// A name that a rename has freed leads to its repository for a while, and is reserved for the owner. The key is in lower case.
export const formerNames: Migration = ({ milliseconds }) => [
  `create table former_names (
    name_key      text primary key,
    name          text not null,
    repository_id text not null references repositories (id) on delete cascade,
    freed_at      ${milliseconds} not null
  )`,
  'create index former_names_by_repository on former_names (repository_id)',
]
