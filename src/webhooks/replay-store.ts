import type { Db, DeliveryStatus } from '#database/schema.ts'

type Range = { after: number; upTo: number; limit: number }

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
