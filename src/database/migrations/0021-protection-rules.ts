import type { Migration } from './migration.ts'

// Existing protections let owners do everything. `requires` is a JSON array of paths of workflow files.
export const protectionRules: Migration = () => [
  "alter table protections add column owners text not null default 'any'",
  "alter table protections add column requires text not null default '[]'",
]
