import type { Migration } from './migration.ts'

// How many objects of Git LFS the files of an imported repository name, none of which were imported.
export const missingLfsObjects: Migration = () => [
  'alter table repositories add column missing_lfs_objects integer not null default 0',
]
