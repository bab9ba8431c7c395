import type { Migration } from './migration.ts'

// The default branch of an existing repository may have been chosen by its first push on purpose.
export const headChosen: Migration = () => [
  'alter table repositories add column head_chosen integer not null default 1',
]
