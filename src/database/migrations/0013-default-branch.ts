import type { Migration } from './migration.ts'

// A change of the default branch: what it was, and what it is to become. It is recorded before HEAD moves, by the push
// that decides it, or by a row of its own that has no updates and goes once HEAD has moved.
export const defaultBranchColumns: Migration = () => [
  'alter table pushes add column former_default_branch text',
  'alter table pushes add column default_branch text',
]
