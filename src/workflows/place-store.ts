import type { Db } from '../database/schema.ts'

/** The repository of a run: what whoever executes it is told. */
export type RunPlace = { id: string; name: string; ownerUsername: string }

/** A repository that is ready, by its id; undefined when it is gone. */
export function findPlace(db: Db, id: string): Promise<RunPlace | undefined> {
  return db
    .selectFrom('repositories')
    .select(['id', 'name', 'ownerUsername'])
    .where('id', '=', id)
    .where('state', '=', 'ready')
    .executeTakeFirst()
}
