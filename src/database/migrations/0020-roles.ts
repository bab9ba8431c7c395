import type { Migration } from './migration.ts'

export const roleColumn: Migration = () => [
  "alter table collaborators add column role text not null default 'write'",
]
