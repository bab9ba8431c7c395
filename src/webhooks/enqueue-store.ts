import { newId } from '#base/ids.ts'
import type { Db } from '#database/schema.ts'
import type { PublishedEvent } from '#events/events.ts'
import { scopesOf } from '#repositories/scope-store.ts'
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
  for (const { webhook, own } of await listSubscribed(tx, relevant)) {
    const last = own.at(-1)
    if (!last) continue
    const rows = own.map(({ seq, kind, repositoryId }, index) => ({
      id: newId(now),
      webhookId: webhook.id,
      repositoryId: repositoryId ?? '',
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

type Subscribed = {
  webhook: Awaited<ReturnType<typeof listWebhooks>>[number]
  /** The events that it subscribes to, in their order. */
  own: PublishedEvent[]
}

/** The webhooks of the repositories of events, and of their namespaces, in the order of their ids. */
async function listSubscribed(tx: Db, events: PublishedEvent[]): Promise<Subscribed[]> {
  const found = new Map<string, Subscribed>()
  for (const repositoryId of new Set(events.map((event) => event.repositoryId ?? ''))) {
    for (const webhook of await listWebhooks(tx, repositoryId)) {
      const kinds = webhook.events.split(' ')
      const isOwn = (event: PublishedEvent) =>
        event.repositoryId === repositoryId && kinds.includes(event.kind)
      const others = found.get(webhook.id)?.own ?? []
      const own = [...others, ...events.filter(isOwn)].sort((a, b) => a.seq - b.seq)
      found.set(webhook.id, { webhook, own })
    }
  }
  return [...found.values()].sort((a, b) => (a.webhook.id < b.webhook.id ? -1 : 1))
}

function listWebhooks(tx: Db, repositoryId: string) {
  return (
    tx
      .selectFrom('webhooks')
      .select(['id', 'url', 'events', 'lastSeq', 'dueAt'])
      .where('scopeId', 'in', scopesOf(repositoryId))
      .where('isEnabled', '=', 1)
      .where('deletedAt', 'is', null)
      // The updates lock them in the order of their ids, as everywhere.
      .orderBy('id')
      .execute()
  )
}
