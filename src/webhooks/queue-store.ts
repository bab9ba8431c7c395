import { type ExpressionBuilder, sql } from 'kysely'
import { hasRowLocks } from '#database/row-locks.ts'
import type {
  Db,
  DeliveryAttemptRow,
  DeliveryRow,
  DeliveryStatus,
  Schema,
  WebhookRow,
} from '#database/schema.ts'
import { type DeliveryTarget, type Exhausted, maxWindow } from './delivery-limits.ts'

/** A webhook as a delivery to it needs it. */
export type Target = Pick<WebhookRow, 'id' | 'url' | 'receiver' | 'isEnabled' | 'scopeId'> & {
  /** Null for a webhook of a repository. */
  namespaceId: string | null
  /** Null for a webhook of a namespace. */
  repositoryName: string | null
  ownerUsername: string | null
  /** When its repository was deleted: until it is restored, nothing is delivered. */
  repositoryDeletedAt: number | null
}

/** The exclusive right to work on a delivery until a time. */
export type Lease = { id: string; leaseHolder: string; leaseUntil: number }

// A literal: SQLite uses the partial index of pending deliveries only when the statement itself names the status.
export const pending = sql.lit<DeliveryStatus>('pending')

type Where = ExpressionBuilder<Schema, 'webhooks'>

// More rows than a few servers can have leased of one webhook.
const maxLeasedRows = 4 * maxWindow

/**
 * Selects deliveries and locks them until the transaction ends, in the order of their ids: see disabling.ts. Use it as
 * a subquery of the statement that changes them; rows that a later statement finds would be locked out of order.
 */
export function inOrder(tx: Db) {
  return tx
    .selectFrom('deliveries')
    .select('id')
    .orderBy('id')
    .$if(hasRowLocks(tx), (rows) => rows.forUpdate())
}

/** The webhooks with deliveries that may be due, except exhausted ones; the longest wait first. */
export function listDueWebhooks(
  db: Db,
  { now, limit, exhausted }: { now: number; limit: number; exhausted: Exhausted },
): Promise<DeliveryTarget[]> {
  const { webhooks, healthy, probing } = exhausted
  return db
    .selectFrom('webhooks')
    .select(['id as webhookId', 'receiver', 'scopeId'])
    .where('dueAt', '<=', now)
    .where('deletedAt', 'is', null)
    .where((is) => is.not(isAmong(is, 'id', webhooks)))
    .where((is) => {
      const isHealthy = isAmong(is, 'id', healthy.webhooks)
      return is.or([
        is.and([isHealthy, is.not(isOfAny(is, healthy))]),
        is.and([is.not(isHealthy), is.lit(!probing.isFull), is.not(isOfAny(is, probing))]),
      ])
    })
    .orderBy('dueAt')
    .limit(limit)
    .execute()
}

/** When the next delivery after a time is due. */
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

export function listTargets(tx: Db, ids: string[]): Promise<Target[]> {
  return tx
    .selectFrom('webhooks')
    .leftJoin('repositories', 'repositories.id', 'webhooks.scopeId')
    .leftJoin('namespaces', 'namespaces.id', 'webhooks.scopeId')
    .select([
      'webhooks.id',
      'webhooks.url',
      'webhooks.receiver',
      'webhooks.isEnabled',
      'webhooks.scopeId',
      'namespaces.id as namespaceId',
      'repositories.name as repositoryName',
      'repositories.ownerUsername',
      'repositories.deletedAt as repositoryDeletedAt',
    ])
    .where('webhooks.id', 'in', ids)
    .where('webhooks.deletedAt', 'is', null)
    .execute()
}

/**
 * Due deliveries of a webhook without a lease, oldest first, locked until the transaction ends. Of a disabled webhook
 * only those that were requested manually. Several servers may publish in a millisecond, so events order these.
 */
export function listClaimable(
  tx: Db,
  { target, now, limit }: { target: Target; now: number; limit: number },
): Promise<DeliveryRow[]> {
  return tx
    .selectFrom('deliveries')
    .selectAll()
    .where('webhookId', '=', target.id)
    .where('status', '=', pending)
    .where('dueAt', '<=', now)
    .where('leaseUntil', '<=', now)
    .$if(target.isEnabled === 0, (is) => is.where('isWanted', '=', 1))
    .$if(target.namespaceId !== null, (is) => is.where(isRestored))
    .orderBy('dueAt')
    .orderBy('seq')
    .orderBy('id')
    .limit(limit)
    .$if(hasRowLocks(tx), (rows) => rows.forNoKeyUpdate().skipLocked())
    .execute()
}

// A deleted repository of a namespace: its deliveries wait until it is restored.
const isRestored = sql<boolean>`not exists (
  select 1 from repositories
  where repositories.id = deliveries.repository_id and repositories.deleted_at is not null
)`

/** The names of those of some repositories that are in a namespace, by their ids. */
export async function listNamesIn(
  tx: Db,
  namespaceId: string,
  ids: string[],
): Promise<Map<string, string>> {
  if (ids.length === 0) return new Map()
  const rows = await tx
    .selectFrom('repositories')
    .select(['id', 'name'])
    .where('namespaceId', '=', namespaceId)
    .where('id', 'in', ids)
    .execute()
  return new Map(rows.map(({ id, name }) => [id, name]))
}

/** Whether a repository is deleted and can be restored. */
export async function isDeleted(tx: Db, repositoryId: string): Promise<boolean> {
  const row = await tx
    .selectFrom('repositories')
    .select('id')
    .where('id', '=', repositoryId)
    .where('deletedAt', 'is not', null)
    .executeTakeFirst()
  return row !== undefined
}

/** Fails claimable deliveries, which are locked. */
export async function failClaimable(
  tx: Db,
  ids: string[],
  { now, fault }: { now: number; fault: string },
): Promise<void> {
  if (ids.length === 0) return
  await tx
    .updateTable('deliveries')
    .set({ status: 'failed', isWanted: 0, dueAt: null, completedAt: now, fault })
    .where('id', 'in', ids)
    .execute()
}

/** When a lease owner's leases of some deliveries end; their rows stay locked until the transaction ends. */
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

/** Leases deliveries. A manual request counts as served from here on. */
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
 * Sets `dueAt` of webhooks to the time when their earliest delivery is due, or its lease ends; null for those of a deleted
 * repository. The rows are locked
 * first, in the order of their ids: a concurrent insert either updates them afterwards, or its delivery is visible here.
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
  // Leased deliveries were due, so they sort first and the first rows suffice.
  const earliest = sql<number | null>`(
    select min(free_at) from (
      select case when lease_until > due_at then lease_until else due_at end as free_at
      from deliveries
      where webhook_id = webhooks.id and status = 'pending'
        and (repository_id = webhooks.scope_id or ${isRestored})
      order by due_at
      limit ${sql.lit(maxLeasedRows)}
    ) as earliest
    where not exists (
      select 1 from repositories
      where repositories.id = webhooks.scope_id and repositories.deleted_at is not null
    )
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
  // Idempotent: a transaction whose commit was lost is repeated.
  await tx
    .insertInto('deliveryBodies')
    .values(bodies)
    .onConflict((row) => row.column('deliveryId').doNothing())
    .execute()
}

export async function insertAttempts(tx: Db, attempts: DeliveryAttemptRow[]): Promise<void> {
  await tx.insertInto('deliveryAttempts').values(attempts).execute()
}

/**
 * Changes a leased delivery, and returns whether another attempt was requested since it was leased. Undefined when the
 * lease was lost.
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

/** Makes a delivery due at once, since a retry was requested while it was in flight. */
export async function makePending(tx: Db, id: string, now: number): Promise<void> {
  await tx
    .updateTable('deliveries')
    .set({ status: 'pending', dueAt: now, completedAt: null })
    .where('id', '=', id)
    .execute()
}

/** Records the first of a series of failures. */
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

/** The enabled webhooks that have only failed since a time or earlier. */
export function listFailingSince(
  tx: Db,
  ids: string[],
  since: number,
): Promise<Pick<WebhookRow, 'id' | 'scopeId'>[]> {
  return tx
    .selectFrom('webhooks')
    .select(['id', 'scopeId'])
    .where('id', 'in', ids)
    .where('isEnabled', '=', 1)
    .where('failingSince', '<=', since)
    .execute()
}

/**
 * Fails the pending deliveries of a disabled webhook, except those that were requested manually or are in flight. A
 * caller that already holds locks skips rows that others have locked, to avoid a deadlock.
 */
export async function failPending(
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

/** The webhooks with pending deliveries that are leased by an owner. */
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

/** Ends an owner's leases of a webhook's deliveries. */
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

/** Deletes finished deliveries that were created before an id, and returns how many. */
export async function deleteOldDeliveries(
  db: Db,
  beforeId: string,
  limit: number,
): Promise<number> {
  const old = inOrder(db).where('id', '<', beforeId).where('status', '<>', 'pending').limit(limit)
  const { numDeletedRows } = await db
    .deleteFrom('deliveries')
    .where('id', 'in', old)
    .executeTakeFirstOrThrow()
  return Number(numDeletedRows)
}

function isOfAny(is: Where, { receivers, scopes }: { receivers: string[]; scopes: string[] }) {
  return is.or([isAmong(is, 'receiver', receivers), isAmong(is, 'scopeId', scopes)])
}

// SQL has no empty lists.
function isAmong(is: Where, column: 'id' | 'receiver' | 'scopeId', values: string[]) {
  return values.length > 0 ? is(column, 'in', values) : is.lit(false)
}
