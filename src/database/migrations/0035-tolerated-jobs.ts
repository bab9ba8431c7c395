import type { Migration } from './migration.ts'

// Whether a job failed and its run goes on, so that it is not why the run failed.
export const toleratedJobs: Migration = () => [
  'alter table run_jobs add column tolerated integer not null default 0',
]
