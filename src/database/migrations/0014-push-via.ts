import type { Migration } from './migration.ts'

// What a push came by, under the name that the API gives it.
export const pushVia: Migration = () => ['alter table pushes rename column door to via']
