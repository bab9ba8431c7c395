import { sql } from 'kysely'
import type { PageRequest } from '#base/list-all.ts'
import type { Db, WebhookRow } from '#database/schema.ts'
import { scopesOf } from '#repositories/scope-store.ts'

type NewWebhook = Pick<
  WebhookRow,
  'id' | 'scopeId' | 'url' | 'events' | 'receiver' | 'createdAt' | 'updatedAt'
>

export async function insertWebhook(db: Db, webhook: NewWebhook): Promise<void> {
  await db.insertInto('webhooks').values(webhook).execute()
}

/** The webhooks of a scope after an id, oldest first. */
export function listWebhooks(
  db: Db,
  scopeId: string,
  { after, limit }: PageRequest,
): Promise<WebhookRow[]> {
  return db
    .selectFrom('webhooks')
    .selectAll()
    .where('scopeId', '=', scopeId)
    .where('deletedAt', 'is', null)
    .where('id', '>', after)
    .orderBy('id')
    .limit(limit)
    .execute()
}

/** The ids of the webhooks of a repository, or also of its namespace, oldest first. */
export async function listWebhookIds(
  db: Db,
  repositoryId: string,
  which: 'own' | 'all',
): Promise<string[]> {
  const rows = await db
    .selectFrom('webhooks')
    .select('id')
    .$if(which === 'own', (is) => is.where('scopeId', '=', repositoryId))
    .$if(which === 'all', (is) => is.where('scopeId', 'in', scopesOf(repositoryId)))
    .where('deletedAt', 'is', null)
    .orderBy('id')
    .execute()
  return rows.map(({ id }) => id)
}

export function findWebhook(db: Db, scopeId: string, id: string): Promise<WebhookRow | undefined> {
  return db
    .selectFrom('webhooks')
    .selectAll()
    .where('id', '=', id)
    .where('scopeId', '=', scopeId)
    .where('deletedAt', 'is', null)
    .executeTakeFirst()
}

export async function countWebhooks(db: Db, scopeId: string): Promise<number> {
  const { count } = await db
    .selectFrom('webhooks')
    .select((is) => is.fn.countAll().as('count'))
    .where('scopeId', '=', scopeId)
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

/** Updates a webhook, with `isEnabled` only one in that state; undefined when none matches or it was deleted. */
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

/** Makes a webhook due at a time or earlier; undefined when it was deleted. */
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

/** The ids of deleted webhooks, of all scopes or of one, in order of deletion. */
export async function listDeletedWebhooks(db: Db, scopeId?: string): Promise<string[]> {
  let query = db
    .selectFrom('webhooks')
    .select('id')
    .where('deletedAt', 'is not', null)
    .orderBy('deletedAt')
  if (scopeId !== undefined) query = query.where('scopeId', '=', scopeId)
  return (await query.execute()).map(({ id }) => id)
}

/** Removes the rows of a deleted webhook. */
export async function removeWebhook(db: Db, id: string): Promise<void> {
  await db.deleteFrom('webhooks').where('id', '=', id).where('deletedAt', 'is not', null).execute()
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
