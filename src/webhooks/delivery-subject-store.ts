import type { Db, WebhookRow } from '../database/schema.ts'

/** An event of a repository by its number; undefined when it is not kept any more. */
export function findEvent(db: Db, repositoryId: string, seq: number) {
  return db
    .selectFrom('events')
    .select(['seq', 'kind', 'actorId', 'actorUsername', 'data', 'createdAt'])
    .where('seq', '=', seq)
    .where('repositoryId', '=', repositoryId)
    .executeTakeFirst()
}

/** What a ping tells of a webhook; undefined when it is gone. */
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
