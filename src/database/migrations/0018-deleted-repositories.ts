import type { Migration } from './migration.ts'

// A deleted repository keeps its rows until it is purged. Its name is free at once: its key is then none of a name.
export const deletedRepositories: Migration = ({ milliseconds }) => [
  `alter table repositories add column deleted_at ${milliseconds}`,
  'create index repositories_deleted on repositories (deleted_at) where deleted_at is not null',
]
