import type { Migration } from './migration.ts'

// Only a shared store fills these tables: without one, refs and packs are files.
export const sharedStoreTables: Migration = ({ milliseconds, sequence, bytes, ordinal }) => [
  `alter table repositories add column version ${sequence} not null default 0`,
  `alter table repositories add column prune_epoch ${sequence} not null default 0`,
  'alter table repositories add column head text',
  `alter table pushes add column version ${sequence}`,
  "alter table imports add column node text not null default ''",
  `create table refs (
    repository_id text not null references repositories (id) on delete cascade,
    name          ${ordinal} not null,
    object_id     text not null,
    peeled_id     text,
    primary key (repository_id, name)
  )`,
  `create table packs (
    key                text primary key,
    repository_id      text not null references repositories (id) on delete cascade,
    hash               text not null,
    pack_bytes         ${sequence} not null,
    pack_sha256        text not null,
    idx_bytes          ${sequence} not null,
    idx_sha256         text not null,
    pack               ${bytes},
    idx                ${bytes},
    added_at_version   ${sequence} not null,
    retired_at_version ${sequence},
    retired_at         ${milliseconds}
  )`,
  'create unique index packs_live on packs (repository_id, hash) where retired_at_version is null',
  'create index packs_by_repository on packs (repository_id)',
  `create table uploads (
    key      text primary key,
    node     text not null,
    begun_at ${milliseconds} not null,
    state    text not null
  )`,
  `create table nodes (
    id      text primary key,
    epoch   ${sequence} not null,
    seen_at ${milliseconds} not null
  )`,
]
