import type { Migration } from './migration.ts'

// A secret is looked up by its name within its repository. Each row names the key that it is sealed with, so
// that one query finds all keys in use.
export const secretsTable: Migration = ({ bytes, milliseconds }) => [
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
