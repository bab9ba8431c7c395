import type { Db, WebhookRow } from '../database/schema.ts'

/** An event of a repository by its sequence number; undefined when it was pruned. */
export function findEvent(db: Db, repositoryId: string, seq: number) {
  return db
    .selectFrom('events')
    .select(['seq', 'kind', 'actorId', 'actorUsername', 'data', 'createdAt'])
    .where('seq', '=', seq)
    .where('repositoryId', '=', repositoryId)
    .executeTakeFirst()
}

/** A webhook as its ping describes it; undefined when it was deleted. */
export function findPinged(
  db: Db,
  id: string,
): Promise<
  Pick<WebhookRow, 'id' | 'url' | 'events' | 'isEnabled' | 'createdAt' | 'updatedAt'> | undefined
> {
  return db
    .selectFrom('webhooks')
    .select(['id', 'url', 'events', 'isEnabled', 'createdAt', 'updatedAt'])
    .where('id', '=', id)
    .where('deletedAt', 'is', null)
    .executeTakeFirst()
}
