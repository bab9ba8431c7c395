import type { Migration } from './migration.ts'

// When a repository was imported; null for one that was created empty, or imported before.
export const importedAt: Migration = ({ milliseconds }) => [
  `alter table repositories add column imported_at ${milliseconds}`,
]
