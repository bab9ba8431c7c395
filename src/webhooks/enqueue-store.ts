import { newId } from '#base/ids.ts'
import type { Db } from '#database/schema.ts'
import type { PublishedEvent } from '#events/events.ts'
import { insertDeliveries } from './delivery-store.ts'
import { subscribableKinds } from './subscribable-kinds.ts'

const batchSize = 500
const subscribable = new Set<string>(subscribableKinds)

/**
 * Enqueues the deliveries of new events. Each has the sequence number of the previous event for its webhook. Webhooks are
 * read without a lock: this transaction holds that of the event counter, which every change of a subscription takes.
 */
export async function enqueueDeliveries(
  tx: Db,
  now: number,
  events: PublishedEvent[],
): Promise<void> {
  const relevant = events.filter(
    ({ kind, repositoryId }) => repositoryId !== null && subscribable.has(kind),
  )
  for (const [repositoryId, ofRepository] of Map.groupBy(
    relevant,
    (event) => event.repositoryId ?? '',
  )) {
    for (const webhook of await listWebhooks(tx, repositoryId)) {
      const kinds = webhook.events.split(' ')
      const own = ofRepository.filter(({ kind }) => kinds.includes(kind))
      const last = own.at(-1)
      if (!last) continue
      const rows = own.map(({ seq, kind }, index) => ({
        id: newId(now),
        webhookId: webhook.id,
        repositoryId,
        event: kind,
        seq,
        previousSeq: own[index - 1]?.seq ?? webhook.lastSeq,
        url: webhook.url,
        createdAt: now,
        dueAt: now,
        isWanted: 0,
      }))
      for (let start = 0; start < rows.length; start += batchSize)
        await insertDeliveries(tx, rows.slice(start, start + batchSize))
      await tx
        .updateTable('webhooks')
        .set({ lastSeq: last.seq, dueAt: Math.min(webhook.dueAt ?? now, now) })
        .where('id', '=', webhook.id)
        .execute()
    }
  }
}

function listWebhooks(tx: Db, repositoryId: string) {
  return (
    tx
      .selectFrom('webhooks')
      .select(['id', 'url', 'events', 'lastSeq', 'dueAt'])
      .where('repositoryId', '=', repositoryId)
      .where('isEnabled', '=', 1)
      .where('deletedAt', 'is', null)
      // The updates lock them in the order of their ids, as everywhere.
      .orderBy('id')
      .execute()
  )
}
