import type { Migration } from './migration.ts'

// The key of the ids of findings, in one row. `allowed_leaks` is a JSON array of the findings that a push contains.
export const leakGuard: Migration = () => [
  "alter table repositories add column leak_guard text not null default 'on'",
  'alter table pushes add column allowed_leaks text',
  `create table leak_guard_keys (
    id  integer not null primary key,
    key text not null
  )`,
]
