import type { Db, DeliveryAttemptRow, DeliveryRow, DeliveryStatus } from '#database/schema.ts'
import { inOrder, pending } from './queue-store.ts'

export type DeliveryFilter = { status?: DeliveryStatus | undefined; event?: string | undefined }

export type NewDelivery = Omit<
  DeliveryRow,
  | 'status'
  | 'attempts'
  | 'leaseUntil'
  | 'leaseHolder'
  | 'lastAttemptAt'
  | 'completedAt'
  | 'responseStatus'
  | 'duration'
  | 'fault'
>

/** Inserts deliveries, and returns the ids of those that did not exist yet. */
export async function insertDeliveries(db: Db, deliveries: NewDelivery[]): Promise<string[]> {
  if (deliveries.length === 0) return []
  const rows = await db
    .insertInto('deliveries')
    .values(deliveries.map((delivery) => ({ ...delivery, status: 'pending' as const })))
    .onConflict((is) => is.columns(['webhookId', 'seq']).doNothing())
    .returning('id')
    .execute()
  return rows.map(({ id }) => id)
}

/** A delivery with the name of its repository; null once that is in the scope of the webhook no longer. */
export type NamedDelivery = DeliveryRow & { repositoryName: string | null }

function named(db: Db) {
  return db
    .selectFrom('deliveries')
    .selectAll('deliveries')
    .select((is) =>
      is
        .selectFrom('repositories')
        .innerJoin('webhooks', 'webhooks.id', 'deliveries.webhookId')
        .select('name')
        .whereRef('repositories.id', '=', 'deliveries.repositoryId')
        .where((one) =>
          one.or([
            one('webhooks.scopeId', '=', one.ref('repositories.id')),
            one('webhooks.scopeId', '=', one.ref('repositories.namespaceId')),
          ]),
        )
        .as('repositoryName'),
    )
}

/** The deliveries of a webhook before an id, newest first. */
export function listDeliveries(
  db: Db,
  webhookId: string,
  { before, limit, status, event }: DeliveryFilter & { before: string; limit: number },
): Promise<NamedDelivery[]> {
  let query = named(db).where('webhookId', '=', webhookId).orderBy('id', 'desc').limit(limit)
  if (before !== '') query = query.where('id', '<', before)
  if (status !== undefined) query = query.where('status', '=', status)
  if (event !== undefined) query = query.where('event', '=', event)
  return query.execute()
}

export function findDelivery(
  db: Db,
  webhookId: string,
  id: string,
): Promise<NamedDelivery | undefined> {
  return named(db).where('id', '=', id).where('webhookId', '=', webhookId).executeTakeFirst()
}

/** The latest attempts of a delivery, oldest first. */
export async function listAttempts(
  db: Db,
  deliveryId: string,
  limit: number,
): Promise<DeliveryAttemptRow[]> {
  const rows = await db
    .selectFrom('deliveryAttempts')
    .selectAll()
    .where('deliveryId', '=', deliveryId)
    .orderBy('attempt', 'desc')
    .limit(limit)
    .execute()
  return rows.reverse()
}

/** The body of a delivery; undefined until it is composed. */
export async function findBody(db: Db, deliveryId: string): Promise<string | undefined> {
  const row = await db
    .selectFrom('deliveryBodies')
    .select('body')
    .where('deliveryId', '=', deliveryId)
    .executeTakeFirst()
  return row?.body
}

/** The number of pending deliveries by webhook. */
export async function countPending(db: Db, webhookIds: string[]): Promise<Map<string, number>> {
  if (webhookIds.length === 0) return new Map()
  const rows = await db
    .selectFrom('deliveries')
    .select((is) => ['webhookId', is.fn.countAll().as('count')])
    .where('webhookId', 'in', webhookIds)
    .where('status', '=', pending)
    .groupBy('webhookId')
    .execute()
  return new Map(rows.map(({ webhookId, count }) => [webhookId, Number(count)]))
}

/** Makes deliveries of a webhook due at once, to its current URL, and returns the ids of those that exist. */
export async function requestAttempts(
  db: Db,
  { webhookId, ids, now }: { webhookId: string; ids: string[]; now: number },
): Promise<string[]> {
  if (ids.length === 0) return []
  const rows = await db
    .updateTable('deliveries')
    .set((is) => ({
      status: 'pending',
      isWanted: 1,
      dueAt: now,
      completedAt: null,
      url: is.selectFrom('webhooks').select('webhooks.url').where('webhooks.id', '=', webhookId),
    }))
    .where('id', 'in', inOrder(db).where('webhookId', '=', webhookId).where('id', 'in', ids))
    .returning('id')
    .execute()
  return rows.map(({ id }) => id)
}

/** Changes the URL of the pending deliveries of a webhook. */
export async function redirectPending(db: Db, webhookId: string, url: string): Promise<void> {
  const waiting = inOrder(db).where('webhookId', '=', webhookId).where('status', '=', pending)
  await db.updateTable('deliveries').set({ url }).where('id', 'in', waiting).execute()
}

/** Deletes up to `limit` deliveries of a webhook, or about a repository, and returns how many. */
export async function deleteDeliveries(
  db: Db,
  of: { webhookId: string } | { repositoryId: string },
  limit: number,
): Promise<number> {
  const all = inOrder(db).limit(limit)
  const some =
    'webhookId' in of
      ? all.where('webhookId', '=', of.webhookId)
      : all.where('repositoryId', '=', of.repositoryId)
  const { numDeletedRows } = await db
    .deleteFrom('deliveries')
    .where('id', 'in', some)
    .executeTakeFirstOrThrow()
  return Number(numDeletedRows)
}

/** The sequence number of the oldest event with a pending delivery that is not composed; infinite without one. */
export async function oldestUncomposed(db: Db): Promise<number> {
  const row = await db
    .selectFrom('deliveries')
    .leftJoin('deliveryBodies', 'deliveryBodies.deliveryId', 'deliveries.id')
    .select(({ fn }) => fn.min('seq').as('seq'))
    .where('status', '=', 'pending')
    .where('deliveryBodies.deliveryId', 'is', null)
    .executeTakeFirst()
  return row?.seq ?? Number.POSITIVE_INFINITY
}
