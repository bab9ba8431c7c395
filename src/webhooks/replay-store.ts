import type { Db, DeliveryStatus } from '../database/schema.ts'

/** The sequence number of the last event; 0 when there is none. */
export async function readLastSeq(db: Db): Promise<number> {
  const row = await db
    .selectFrom('marks')
    .select('value')
    .where('name', '=', 'events')
    .executeTakeFirstOrThrow()
  return row.value
}

/** The first event at or after a sequence number; undefined when there is none. */
export function readEventFrom(
  db: Db,
  seq: number,
): Promise<{ seq: number; createdAt: number } | undefined> {
  return db
    .selectFrom('events')
    .select(['seq', 'createdAt'])
    .where('seq', '>=', seq)
    .orderBy('seq')
    .limit(1)
    .executeTakeFirst()
}

type Range = { after: number; upTo: number; limit: number }

export type ReplayableEvent = { seq: number; kind: string; createdAt: number }

/** Events of a repository between two sequence numbers, of all kinds, in order. */
export function listEventsBetween(
  db: Db,
  repositoryId: string,
  { after, upTo, limit }: Range,
): Promise<ReplayableEvent[]> {
  return db
    .selectFrom('events')
    .select(['seq', 'kind', 'createdAt'])
    .where('repositoryId', '=', repositoryId)
    .where('seq', '>', after)
    .where('seq', '<=', upTo)
    .orderBy('seq')
    .limit(limit)
    .execute()
}

/** The sequence number of the last event of some kinds before another one; 0 when there is none. */
export async function readSeqBefore(
  db: Db,
  { repositoryId, kinds, seq }: { repositoryId: string; kinds: string[]; seq: number },
): Promise<number> {
  const row = await db
    .selectFrom('events')
    .select('seq')
    .where('repositoryId', '=', repositoryId)
    .where('kind', 'in', kinds)
    .where('seq', '<', seq)
    .orderBy('seq', 'desc')
    .limit(1)
    .executeTakeFirst()
  return row?.seq ?? 0
}

export type NumberedDelivery = {
  id: string
  seq: number
  status: DeliveryStatus
  happenedAt: number
}

/** Deliveries of a webhook for events between two sequence numbers, in order, with the times of the events. */
export async function listDeliveriesBetween(
  db: Db,
  webhookId: string,
  { after, upTo, limit }: Range,
): Promise<NumberedDelivery[]> {
  const rows = await db
    .selectFrom('deliveries')
    .leftJoin('events', 'events.seq', 'deliveries.seq')
    .select([
      'deliveries.id',
      'deliveries.seq',
      'deliveries.status',
      'deliveries.createdAt',
      'events.createdAt as happenedAt',
    ])
    .where('deliveries.webhookId', '=', webhookId)
    .where('deliveries.seq', '>', after)
    .where('deliveries.seq', '<=', upTo)
    .orderBy('deliveries.seq')
    .limit(limit)
    .execute()
  // The event may have been pruned.
  return rows.map(({ id, seq, status, createdAt, happenedAt }) => ({
    id,
    seq: seq ?? 0,
    status,
    happenedAt: happenedAt ?? createdAt,
  }))
}
