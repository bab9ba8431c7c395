import { type ExpressionBuilder, sql } from 'kysely'
import { hasRowLocks } from '../database/row-locks.ts'
import type {
  Db,
  DeliveryAttemptRow,
  DeliveryRow,
  DeliveryStatus,
  Schema,
  WebhookRow,
} from '../database/schema.ts'
import { type Closed, type DeliveryTarget, windowMost } from './delivery-limits.ts'

/** What is known of a webhook when something is sent to it. */
export type Target = Pick<WebhookRow, 'id' | 'url' | 'receiver' | 'isEnabled' | 'repositoryId'> & {
  repositoryName: string
}

/** Whose a claimed delivery is: until its lease is over it is nobody else's. */
export type Lease = { id: string; leaseHolder: string; leaseUntil: number }

// SQLite takes the index of pending deliveries only where the statement itself says so.
export const pending = sql.lit<DeliveryStatus>('pending')

type Where = ExpressionBuilder<Schema, 'webhooks'>

// More rows than one webhook can have under way, on a few servers.
const leasedAtMost = 4 * windowMost

/**
 * Deliveries that are locked until the transaction ends, in the order of their ids as everybody does who waits for
 * several: see disabling.ts. To be chosen further, within the statement that changes them: what matches only after
 * a statement of its own would be locked behind the others.
 */
export function inOrder(tx: Db) {
  return tx
    .selectFrom('deliveries')
    .select('id')
    .orderBy('id')
    .$if(hasRowLocks(tx), (rows) => rows.forUpdate())
}

/** Webhooks of which something may be due, the one first that waits the longest, but those that are closed. */
export function listDueWebhooks(
  db: Db,
  { now, most, closed }: { now: number; most: number; closed: Closed },
): Promise<DeliveryTarget[]> {
  const { webhooks, open, cautious } = closed
  return db
    .selectFrom('webhooks')
    .select(['id as webhookId', 'receiver', 'repositoryId'])
    .where('dueAt', '<=', now)
    .where('deletedAt', 'is', null)
    .where((is) => is.not(isAmong(is, 'id', webhooks)))
    .where((is) => {
      const isOpen = isAmong(is, 'id', open.webhooks)
      return is.or([
        is.and([isOpen, is.not(isOfAny(is, open))]),
        is.and([is.not(isOpen), is.lit(!cautious.isFull), is.not(isOfAny(is, cautious))]),
      ])
    })
    .orderBy('dueAt')
    .limit(most)
    .execute()
}

/** When something is due next, after a time. */
export async function findNextDue(db: Db, after: number): Promise<number | undefined> {
  const row = await db
    .selectFrom('webhooks')
    .select('dueAt')
    .where('dueAt', '>', after)
    .where('deletedAt', 'is', null)
    .orderBy('dueAt')
    .limit(1)
    .executeTakeFirst()
  return row?.dueAt ?? undefined
}

/** Webhooks with what is needed to send to them. */
export function listTargets(tx: Db, ids: string[]): Promise<Target[]> {
  return tx
    .selectFrom('webhooks')
    .innerJoin('repositories', 'repositories.id', 'webhooks.repositoryId')
    .select([
      'webhooks.id',
      'webhooks.url',
      'webhooks.receiver',
      'webhooks.isEnabled',
      'webhooks.repositoryId',
      'repositories.name as repositoryName',
    ])
    .where('webhooks.id', 'in', ids)
    .where('webhooks.deletedAt', 'is', null)
    .execute()
}

/**
 * Deliveries of a webhook that are due and that nobody has, the oldest first; nobody else is given them meanwhile.
 * Of one that is disabled only what was asked for by hand.
 */
export function listClaimable(
  tx: Db,
  { target, now, most }: { target: Target; now: number; most: number },
): Promise<DeliveryRow[]> {
  return tx
    .selectFrom('deliveries')
    .selectAll()
    .where('webhookId', '=', target.id)
    .where('status', '=', pending)
    .where('dueAt', '<=', now)
    .where('leaseUntil', '<=', now)
    .$if(target.isEnabled === 0, (is) => is.where('isWanted', '=', 1))
    .orderBy('dueAt')
    .orderBy('id')
    .limit(most)
    .$if(hasRowLocks(tx), (rows) => rows.forNoKeyUpdate().skipLocked())
    .execute()
}

/** Until when a holder has some deliveries, whose rows are locked until the transaction ends. */
export async function lockLeases(
  tx: Db,
  ids: string[],
  leaseHolder: string,
): Promise<Map<string, number>> {
  if (ids.length === 0) return new Map()
  const rows = await inOrder(tx)
    .select('leaseUntil')
    .where('id', 'in', ids)
    .where('leaseHolder', '=', leaseHolder)
    .execute()
  return new Map(rows.map(({ id, leaseUntil }) => [id, leaseUntil]))
}

/** Takes deliveries; what was asked for by hand begins with this. */
export async function leaseDeliveries(
  tx: Db,
  ids: string[],
  lease: Omit<Lease, 'id'>,
): Promise<void> {
  await tx
    .updateTable('deliveries')
    .set({ ...lease, isWanted: 0 })
    .where('id', 'in', ids)
    .execute()
}

/**
 * Has webhooks be looked at when their earliest delivery is due, or free again. Their rows are locked first, in the
 * order of their ids: who adds a delivery and has not told them yet does so afterwards, and of who has told them
 * the delivery is seen.
 */
export async function refreshDue(tx: Db, webhookIds: string[]): Promise<void> {
  if (hasRowLocks(tx)) {
    await tx
      .selectFrom('webhooks')
      .select('id')
      .where('id', 'in', webhookIds)
      .orderBy('id')
      .forNoKeyUpdate()
      .execute()
  }
  // What is leased was due, so it comes before whatever is not: the first rows tell.
  const earliest = sql<number | null>`(
    select min(free_at) from (
      select case when lease_until > due_at then lease_until else due_at end as free_at
      from deliveries
      where webhook_id = webhooks.id and status = 'pending'
      order by due_at
      limit ${sql.lit(leasedAtMost)}
    ) as earliest
  )`
  await tx.updateTable('webhooks').set({ dueAt: earliest }).where('id', 'in', webhookIds).execute()
}

export async function listBodies(db: Db, ids: string[]): Promise<Map<string, string>> {
  const rows = await db
    .selectFrom('deliveryBodies')
    .selectAll()
    .where('deliveryId', 'in', ids)
    .execute()
  return new Map(rows.map(({ deliveryId, body }) => [deliveryId, body]))
}

export async function insertBodies(
  tx: Db,
  bodies: { deliveryId: string; body: string }[],
): Promise<void> {
  await tx.insertInto('deliveryBodies').values(bodies).execute()
}

export async function insertAttempts(tx: Db, attempts: DeliveryAttemptRow[]): Promise<void> {
  await tx.insertInto('deliveryAttempts').values(attempts).execute()
}

/**
 * Changes a leased delivery; whether a further attempt has been asked for since it was leased. Undefined when the
 * delivery is not the holder's any more.
 */
export function updateLeased(
  tx: Db,
  { id, leaseHolder, leaseUntil }: Lease,
  change: Partial<DeliveryRow>,
): Promise<Pick<DeliveryRow, 'isWanted'> | undefined> {
  return tx
    .updateTable('deliveries')
    .set(change)
    .where('id', '=', id)
    .where('leaseHolder', '=', leaseHolder)
    .where('leaseUntil', '=', leaseUntil)
    .returning('isWanted')
    .executeTakeFirst()
}

/** Has a delivery be attempted again at once: that was asked for while it was under way. */
export async function makePending(tx: Db, id: string, now: number): Promise<void> {
  await tx
    .updateTable('deliveries')
    .set({ status: 'pending', dueAt: now, completedAt: null })
    .where('id', '=', id)
    .execute()
}

/** Since when a webhook has failed is kept at its first failure. */
export async function markFailing(tx: Db, webhookId: string, since: number): Promise<void> {
  await tx
    .updateTable('webhooks')
    .set({ failingSince: since })
    .where('id', '=', webhookId)
    .where('failingSince', 'is', null)
    .execute()
}

export async function markHealthy(tx: Db, webhookIds: string[]): Promise<void> {
  await tx
    .updateTable('webhooks')
    .set({ failingSince: null })
    .where('id', 'in', webhookIds)
    .where('failingSince', 'is not', null)
    .execute()
}

/** Those of some webhooks that are enabled, and have had nothing but failures since a time or longer. */
export function listFailingSince(
  tx: Db,
  ids: string[],
  since: number,
): Promise<Pick<WebhookRow, 'id' | 'repositoryId'>[]> {
  return tx
    .selectFrom('webhooks')
    .select(['id', 'repositoryId'])
    .where('id', 'in', ids)
    .where('isEnabled', '=', 1)
    .where('failingSince', '<=', since)
    .execute()
}

/**
 * Has what waits for a disabled webhook fail, but what was asked for by hand or is just being sent. Whoever has
 * locks already leaves out what others have locked, which is in their hands.
 */
export async function failWaiting(
  tx: Db,
  webhookId: string,
  { now, fault, hasLocks }: { now: number; fault: string; hasLocks: boolean },
): Promise<void> {
  const waiting = inOrder(tx)
    .where('webhookId', '=', webhookId)
    .where('status', '=', pending)
    .where('isWanted', '=', 0)
    .where('leaseUntil', '<=', now)
    .$if(hasLocks && hasRowLocks(tx), (rows) => rows.skipLocked())
  await tx
    .updateTable('deliveries')
    .set({ status: 'failed', dueAt: null, completedAt: now, fault })
    .where('id', 'in', waiting)
    .execute()
}

/** Webhooks of which a holder has leases, of deliveries that are not done. */
export async function listLeased(db: Db, leaseHolder: string): Promise<string[]> {
  const rows = await db
    .selectFrom('deliveries')
    .select('webhookId')
    .distinct()
    .where('webhookId', 'in', (of) =>
      of.selectFrom('webhooks').select('id').where('dueAt', 'is not', null),
    )
    .where('status', '=', pending)
    .where('leaseHolder', '=', leaseHolder)
    .execute()
  return rows.map(({ webhookId }) => webhookId)
}

/** Gives back what a holder has leased of a webhook. */
export async function endLeases(tx: Db, webhookId: string, leaseHolder: string): Promise<void> {
  const leased = inOrder(tx)
    .where('webhookId', '=', webhookId)
    .where('status', '=', pending)
    .where('leaseHolder', '=', leaseHolder)
  await tx
    .updateTable('deliveries')
    .set({ leaseUntil: 0, leaseHolder: '' })
    .where('id', 'in', leased)
    .execute()
}

/** Forgets deliveries that were made before a time, but those that wait; how many. */
export async function deleteOldDeliveries(db: Db, beforeId: string, most: number): Promise<number> {
  const old = inOrder(db).where('id', '<', beforeId).where('status', '<>', 'pending').limit(most)
  const { numDeletedRows } = await db
    .deleteFrom('deliveries')
    .where('id', 'in', old)
    .executeTakeFirstOrThrow()
  return Number(numDeletedRows)
}

function isOfAny(
  is: Where,
  { receivers, repositories }: { receivers: string[]; repositories: string[] },
) {
  return is.or([isAmong(is, 'receiver', receivers), isAmong(is, 'repositoryId', repositories)])
}

// No list of SQL is empty.
function isAmong(is: Where, column: 'id' | 'receiver' | 'repositoryId', values: string[]) {
  return values.length > 0 ? is(column, 'in', values) : is.lit(false)
}
