import type { Migration } from './migration.ts'

// `actor_id` is overwritten by a rerun; `cause_id` is not.
export const runCauses: Migration = () => [
  "alter table runs add column cause_id text not null default ''",
  'update runs set cause_id = actor_id',
]
