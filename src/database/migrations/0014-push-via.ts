import type { Migration } from './migrations.ts'

// What a push came by, under the name that the API gives it.
export const pushVia: Migration = () => ['alter table pushes rename column door to via']
