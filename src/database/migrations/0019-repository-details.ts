import type { Migration } from './migration.ts'

// `pushed_at` is when the last push was received, or undo was requested.
export const repositoryDetails: Migration = ({ milliseconds }) => [
  "alter table repositories add column description text not null default ''",
  `alter table repositories add column pushed_at ${milliseconds}`,
  `update repositories set pushed_at = (
    select max(judged_at) from pushes
    where pushes.repository_id = repositories.id and finished_at is not null and updates <> '[]'
  )`,
]
