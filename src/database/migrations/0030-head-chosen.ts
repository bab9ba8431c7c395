import type { Migration } from './migration.ts'

// Whoever pushed first to an existing repository may have chosen its default branch on purpose.
export const headChosen: Migration = () => [
  'alter table repositories add column head_chosen integer not null default 1',
]
