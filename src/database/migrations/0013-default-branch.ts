import type { Migration } from './migration.ts'

// A change of the default branch, recorded before HEAD moves: in the row of the push that causes it, or in a separate row
// without updates that is deleted once HEAD has moved.
export const defaultBranchColumns: Migration = () => [
  'alter table pushes add column former_default_branch text',
  'alter table pushes add column default_branch text',
]
