import type { Migration } from './migration.ts'

// A session of the pages has the rights of a token or an SSH key, and ends with it. Secrets and codes are hashed.
export const sessionsTables: Migration = ({ milliseconds }) => [
  `create table sessions (
    id             text not null primary key,
    secret_hash    text not null unique,
    token_id       text references tokens (id) on delete cascade,
    ssh_key_id     text references ssh_keys (id) on delete cascade,
    username       text not null,
    user_agent     text not null,
    created_at     ${milliseconds} not null,
    seen_at        ${milliseconds} not null,
    expires_at     ${milliseconds} not null,
    unlocked_until ${milliseconds} not null
  )`,
  'create index sessions_by_username on sessions (username, id)',
  'create index sessions_by_expiry on sessions (expires_at)',
  'create index sessions_by_token on sessions (token_id)',
  'create index sessions_by_ssh_key on sessions (ssh_key_id)',
  `create table login_codes (
    code_hash  text not null primary key,
    token_id   text references tokens (id) on delete cascade,
    ssh_key_id text references ssh_keys (id) on delete cascade,
    expires_at ${milliseconds} not null
  )`,
  'create index login_codes_by_token on login_codes (token_id)',
  'create index login_codes_by_ssh_key on login_codes (ssh_key_id)',
]
