import type { Migration } from './migration.ts'

// The tokens of jobs are valid while `claim` is the token hash of their running run. `run_tokens` is the most that they
// may do in the repository. Signing keys sign ID tokens; the private half is sealed.
export const jobTokens: Migration = ({ bytes, milliseconds }) => [
  "alter table repositories add column run_tokens text not null default 'read'",
  "alter table runs add column grants text not null default '[]'",
  `create table job_tokens (
    token_hash text not null primary key,
    run_id     text not null references runs (id) on delete cascade,
    claim      text not null,
    file       text not null,
    workflow   text not null,
    job_file   text not null,
    rights     text not null
  )`,
  'create index job_tokens_by_run on job_tokens (run_id)',
  `create table signing_keys (
    id             text not null primary key,
    public_key     text not null,
    sealed_private ${bytes} not null,
    key_id         text not null,
    created_at     ${milliseconds} not null
  )`,
]
