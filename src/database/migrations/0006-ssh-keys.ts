import type { Migration } from './migration.ts'

// A key is looked up by its fingerprint at each login, and belongs to one username.
export const sshKeysTable: Migration = ({ milliseconds }) => [
  `create table ssh_keys (
    id           text primary key,
    username     text not null,
    name         text not null,
    public_key   text not null,
    key_type     text not null,
    fingerprint  text not null unique,
    permissions  text not null,
    created_at   ${milliseconds} not null,
    last_used_at ${milliseconds}
  )`,
  'create index ssh_keys_by_username on ssh_keys (username, id)',
]
