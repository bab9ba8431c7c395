import type { Db } from '../database/schema.ts'

/** A repository, as those are told of it who hear of its events and execute its runs. */
export type Place = { id: string; name: string; ownerUsername: string; createdAt: number }

/** A repository that is ready, by its id; undefined when it is gone. */
export function findPlace(db: Db, id: string): Promise<Place | undefined> {
  return db
    .selectFrom('repositories')
    .select(['id', 'name', 'ownerUsername', 'createdAt'])
    .where('id', '=', id)
    .where('state', '=', 'ready')
    .executeTakeFirst()
}
