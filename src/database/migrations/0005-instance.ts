import type { Migration } from './migration.ts'

// A database and a data directory belong together by this id.
export const instanceTable: Migration = () => ['create table instance (id text primary key)']
