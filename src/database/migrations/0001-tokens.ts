import type { Migration } from './migration.ts'

// Tokens are looked up by their hash at every request, and by username when an owner is named.
export const tokensTable: Migration = ({ milliseconds }) => [
  `create table tokens (
    id           text primary key,
    name         text not null,
    token_hash   text not null unique,
    username     text not null,
    permissions  text not null,
    created_at   ${milliseconds} not null,
    expires_at   ${milliseconds},
    last_used_at ${milliseconds}
  )`,
  'create index tokens_by_username on tokens (username)',
]
