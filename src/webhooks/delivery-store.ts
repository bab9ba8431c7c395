import type { Db, DeliveryAttemptRow, DeliveryRow, DeliveryStatus } from '../database/schema.ts'
import { inOrder, pending } from './queue-store.ts'

/** What deliveries are listed: those in one state, of one kind of event. */
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

/** Writes down what is to be sent; the ids of those that were not there yet. */
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

/** The deliveries of a webhook before an id, newest first. */
export function listDeliveries(
  db: Db,
  webhookId: string,
  { before, limit, status, event }: DeliveryFilter & { before: string; limit: number },
): Promise<DeliveryRow[]> {
  let query = db
    .selectFrom('deliveries')
    .selectAll()
    .where('webhookId', '=', webhookId)
    .orderBy('id', 'desc')
    .limit(limit)
  if (before !== '') query = query.where('id', '<', before)
  if (status !== undefined) query = query.where('status', '=', status)
  if (event !== undefined) query = query.where('event', '=', event)
  return query.execute()
}

export function findDelivery(
  db: Db,
  webhookId: string,
  id: string,
): Promise<DeliveryRow | undefined> {
  return db
    .selectFrom('deliveries')
    .selectAll()
    .where('id', '=', id)
    .where('webhookId', '=', webhookId)
    .executeTakeFirst()
}

/** The last attempts of a delivery, oldest first. */
export async function listAttempts(
  db: Db,
  deliveryId: string,
  most: number,
): Promise<DeliveryAttemptRow[]> {
  const rows = await db
    .selectFrom('deliveryAttempts')
    .selectAll()
    .where('deliveryId', '=', deliveryId)
    .orderBy('attempt', 'desc')
    .limit(most)
    .execute()
  return rows.reverse()
}

/** What is sent, or was; undefined until it is composed. */
export async function findBody(db: Db, deliveryId: string): Promise<string | undefined> {
  const row = await db
    .selectFrom('deliveryBodies')
    .select('body')
    .where('deliveryId', '=', deliveryId)
    .executeTakeFirst()
  return row?.body
}

/** How many deliveries of webhooks wait, or are being sent, by webhook. */
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

/** Has deliveries of a webhook attempted at once, to its address as it is now; the ids of those that are there. */
export async function wantAttempts(
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

/** Sends what waits to another address. */
export async function redirectPending(db: Db, webhookId: string, url: string): Promise<void> {
  const waiting = inOrder(db).where('webhookId', '=', webhookId).where('status', '=', pending)
  await db.updateTable('deliveries').set({ url }).where('id', 'in', waiting).execute()
}

/** Removes some deliveries of a webhook; how many. */
export async function deleteDeliveries(db: Db, webhookId: string, most: number): Promise<number> {
  const some = inOrder(db).where('webhookId', '=', webhookId).limit(most)
  const { numDeletedRows } = await db
    .deleteFrom('deliveries')
    .where('id', 'in', some)
    .executeTakeFirstOrThrow()
  return Number(numDeletedRows)
}
