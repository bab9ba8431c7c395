import type { Migration } from './migration.ts'

// The number of migrations that the oldest server knows that can run on these tables.
export const oldestServer: Migration = () => [
  'alter table schema_version add column oldest_server integer not null default 0',
]
