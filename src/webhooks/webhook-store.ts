import { sql } from 'kysely'
import { hasRowLocks } from '../database/row-locks.ts'
import type { Db, WebhookRow } from '../database/schema.ts'

type NewWebhook = Pick<
  WebhookRow,
  'id' | 'repositoryId' | 'url' | 'events' | 'receiver' | 'createdAt' | 'updatedAt'
>

export async function insertWebhook(db: Db, webhook: NewWebhook): Promise<void> {
  await db.insertInto('webhooks').values(webhook).execute()
}

/** The webhooks of a repository after an id, oldest first. */
export function listWebhooks(
  db: Db,
  repositoryId: string,
  { after, limit }: { after: string; limit: number | undefined },
): Promise<WebhookRow[]> {
  let query = db
    .selectFrom('webhooks')
    .selectAll()
    .where('repositoryId', '=', repositoryId)
    .where('deletedAt', 'is', null)
    .where('id', '>', after)
    .orderBy('id')
  if (limit !== undefined) query = query.limit(limit)
  return query.execute()
}

export function findWebhook(
  db: Db,
  repositoryId: string,
  id: string,
): Promise<WebhookRow | undefined> {
  return db
    .selectFrom('webhooks')
    .selectAll()
    .where('id', '=', id)
    .where('repositoryId', '=', repositoryId)
    .where('deletedAt', 'is', null)
    .executeTakeFirst()
}

export async function countWebhooks(db: Db, repositoryId: string): Promise<number> {
  const { count } = await db
    .selectFrom('webhooks')
    .select((is) => is.fn.countAll().as('count'))
    .where('repositoryId', '=', repositoryId)
    .where('deletedAt', 'is', null)
    .executeTakeFirstOrThrow()
  return Number(count)
}

type WebhookChanges = Partial<
  Pick<
    WebhookRow,
    | 'url'
    | 'receiver'
    | 'events'
    | 'updatedAt'
    | 'isEnabled'
    | 'failingSince'
    | 'disabledAt'
    | 'disabledReason'
    | 'deletedAt'
    | 'dueAt'
  >
>

/** Changes a webhook that is not deleted; undefined when it is, or is gone. With `isEnabled` only one that is so. */
export function updateWebhook(
  db: Db,
  { id, isEnabled }: { id: string; isEnabled?: number },
  changes: WebhookChanges,
): Promise<WebhookRow | undefined> {
  let query = db
    .updateTable('webhooks')
    .set(changes)
    .where('id', '=', id)
    .where('deletedAt', 'is', null)
  if (isEnabled !== undefined) query = query.where('isEnabled', '=', isEnabled)
  return query.returningAll().executeTakeFirst()
}

/** Something of a webhook is due at a time; undefined when it is deleted, or gone. */
export function bringForward(
  db: Db,
  id: string,
  dueAt: number,
  lastSeq = 0,
): Promise<WebhookRow | undefined> {
  return db
    .updateTable('webhooks')
    .set((is) => ({
      dueAt: sql<number>`case when ${is.ref('dueAt')} < ${dueAt} then ${is.ref('dueAt')} else ${dueAt} end`,
      lastSeq: sql<number>`case when ${is.ref('lastSeq')} < ${lastSeq} then ${lastSeq} else ${is.ref('lastSeq')} end`,
    }))
    .where('id', '=', id)
    .where('deletedAt', 'is', null)
    .returningAll()
    .executeTakeFirst()
}

/** Has all webhooks of a repository deleted. */
export async function markWebhooksDeleted(
  db: Db,
  repositoryId: string,
  deletedAt: number,
): Promise<void> {
  // Whoever locks several webhooks locks them in the order of their ids.
  const some = db
    .selectFrom('webhooks')
    .select('id')
    .where('repositoryId', '=', repositoryId)
    .where('deletedAt', 'is', null)
    .orderBy('id')
    .$if(hasRowLocks(db), (rows) => rows.forNoKeyUpdate())
  await db.updateTable('webhooks').set({ deletedAt, dueAt: null }).where('id', 'in', some).execute()
}

/** Ids of webhooks that were deleted, of all repositories or of one, those first that were so first. */
export async function listDeletedWebhooks(db: Db, repositoryId?: string): Promise<string[]> {
  let query = db
    .selectFrom('webhooks')
    .select('id')
    .where('deletedAt', 'is not', null)
    .orderBy('deletedAt')
  if (repositoryId !== undefined) query = query.where('repositoryId', '=', repositoryId)
  return (await query.execute()).map(({ id }) => id)
}

/** Removes a webhook that was deleted, with all that belongs to it. */
export async function removeWebhook(db: Db, id: string): Promise<void> {
  await db.deleteFrom('webhooks').where('id', '=', id).where('deletedAt', 'is not', null).execute()
}
