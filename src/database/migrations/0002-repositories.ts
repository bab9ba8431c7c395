import type { Migration } from './migration.ts'

// The owner's token may be deleted while the repository stays, so it is no foreign key.
export const repositoriesTables: Migration = ({ milliseconds }) => [
  `create table repositories (
    id             text primary key,
    name           text not null,
    name_key       text not null unique,
    owner_token_id text not null,
    owner_username text not null,
    created_at     ${milliseconds} not null
  )`,
  'create index repositories_by_owner on repositories (owner_username)',
  `create table protections (
    repository_id text not null references repositories (id) on delete cascade,
    branch        text not null,
    created_at    ${milliseconds} not null,
    primary key (repository_id, branch)
  )`,
  `create table collaborators (
    repository_id text not null references repositories (id) on delete cascade,
    username      text not null,
    created_at    ${milliseconds} not null,
    primary key (repository_id, username)
  )`,
  'create index collaborators_by_username on collaborators (username)',
]
