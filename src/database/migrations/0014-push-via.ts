import type { Migration } from './migration.ts'

// The transport of a push, under its name in the API.
export const pushVia: Migration = () => ['alter table pushes rename column door to via']
