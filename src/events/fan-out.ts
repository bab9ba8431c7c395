import { newId } from '../base/ids.ts'
import type { Db } from '../database/schema.ts'

/** The kinds of events that a webhook can be told of. */
export const subscribableKinds = ['push', 'workflow'] as const

type Numbered = { seq: number; kind: string; repositoryId: string | null }

const deliveriesAtOnce = 500
const wanted = new Set<string>(subscribableKinds)

/**
 * Writes down what is to be delivered of new events, and to whom. Each delivery knows the number of the event
 * before its own that the same webhook was told of. The counter of events is locked, so nobody else is at this.
 */
export async function fanOut(tx: Db, now: number, events: Numbered[]): Promise<void> {
  const told = events.filter(({ kind, repositoryId }) => repositoryId !== null && wanted.has(kind))
  for (const [repositoryId, some] of Map.groupBy(told, (event) => event.repositoryId ?? '')) {
    for (const webhook of await listWebhooks(tx, repositoryId)) {
      const kinds = webhook.events.split(' ')
      const own = some.filter(({ kind }) => kinds.includes(kind))
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
        status: 'pending' as const,
        createdAt: now,
        dueAt: now,
      }))
      await insertDeliveries(tx, rows)
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
      // Whoever locks several webhooks locks them in the order of their ids.
      .orderBy('id')
      .execute()
  )
}

type NewDelivery = {
  id: string
  webhookId: string
  repositoryId: string
  event: string
  seq: number
  previousSeq: number
  url: string
  status: 'pending'
  createdAt: number
  dueAt: number
}

async function insertDeliveries(tx: Db, rows: NewDelivery[]): Promise<void> {
  for (let start = 0; start < rows.length; start += deliveriesAtOnce) {
    const some = rows.slice(start, start + deliveriesAtOnce)
    await tx.insertInto('deliveries').values(some).execute()
  }
}
