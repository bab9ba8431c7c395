import type { Clock } from '#base/clock.ts'
import { newId } from '#base/ids.ts'
import type { Database } from '#database/database.ts'
import type { Db, WebhookRow } from '#database/schema.ts'
import { recordActions } from '#events/audit/record.ts'
import {
  listEventsBetween,
  readEventFrom,
  readLastSeq,
  readSeqBefore,
} from '#events/event-store.ts'
import type { Actor } from '#events/events.ts'
import { invalid } from '#http/validation.ts'
import { asGone } from '#repositories/repository-errors.ts'
import { isEventOf } from '#repositories/scope-store.ts'
import { placeOf } from '#repositories/scopes.ts'
import { insertDeliveries, requestAttempts } from '../delivery-store.ts'
import { listDeliveriesBetween } from '../replay-store.ts'
import { bringForward } from '../webhook-store.ts'
import { type ScopedWebhook, webhookNotFound } from './webhook-service.ts'

type Dependencies = { db: Database; clock: Clock; wake: () => void }

type ReplayRequest = {
  since: number
  until?: number | undefined
  onlyFailed?: boolean | undefined
  after?: number | undefined
}

/** Numbers of deliveries that were retried and created. With `more`, the next request continues after `next`. */
type ReplayResult = { replayed: number; created: number; more: boolean; next: number | null }

/**
 * Walks events and deliveries in order, in batches of one transaction each. A webhook has at most one delivery per
 * event, so none is created twice. Throws `invalid_request` for an impossible period.
 */
export type Replay = (
  actor: Actor,
  webhook: ScopedWebhook,
  request: ReplayRequest,
) => Promise<ReplayResult>

/** An event without a delivery for the webhook. */
type Missed = { seq: number; kind: string; repositoryId: string; previousSeq: number }

/** Deliveries per request. */
export const maxReplayed = 5000

const batchSize = 500
// Bounds the time of a request when few of many events match.
const maxExamined = 100_000
/** Clocks of servers differ, and may be set back: an event may have an earlier time than its predecessor. */
const maxClockSkewMs = 60_000

/** Replays the events of a period from the event log: retries deliveries, and creates those that do not exist. */
export function createReplay({ db, clock, wake }: Dependencies): Replay {
  return async (actor, webhook, request) => {
    requireTimes(request, clock.now())
    const { since, until = clock.now(), onlyFailed = false } = request
    await db.transaction().execute(async (tx) => {
      const { repositoryId, inNamespace } = placeOf(webhook.scope)
      const data = { webhookId: webhook.id, since, until, onlyFailed, ...inNamespace }
      await recordActions(tx, clock.now(), [
        { action: 'deliveries.replayed', actor, repositoryId, data },
      ])
    })
    const first = await findFirstSeq(db, since - maxClockSkewMs)
    const later = await readEventFrom(db, await findFirstSeq(db, until + maxClockSkewMs + 1))
    const upTo = later ? later.seq - 1 : await readLastSeq(db)
    const isIn = (time: number) => since <= time && time <= until
    const isOfScope = isEventOf(webhook.scopeId)
    const kinds = webhook.events.split(' ')
    const isMissed = (time: number) => isIn(time) && (!onlyFailed || time >= webhook.createdAt)
    let after = Math.max(request.after ?? 0, first - 1)
    let previous: number | undefined
    let [replayed, created, examined] = [0, 0, 0]
    while (after < upTo && replayed + created < maxReplayed && examined < maxExamined) {
      const limit = Math.min(batchSize, maxReplayed - replayed - created)
      const range = { after, upTo, limit }
      const events = await listEventsBetween(db, isOfScope, range)
      const deliveries = await listDeliveriesBetween(db, webhook.id, range)
      // A list that reached the limit says nothing beyond its last row.
      const end = Math.min(endOf(events, limit), endOf(deliveries, limit), upTo)
      const delivered = new Set(deliveries.map(({ seq }) => seq))
      const again = deliveries.filter(
        ({ seq, status, happenedAt }) =>
          seq <= end && isIn(happenedAt) && (!onlyFailed || status === 'failed'),
      )
      const missed: Missed[] = []
      for (const { seq, kind, repositoryId, createdAt } of events) {
        if (seq > end || !kinds.includes(kind)) continue
        previous ??= await readSeqBefore(db, isOfScope, { kinds, seq })
        if (!delivered.has(seq) && isMissed(createdAt))
          missed.push({ seq, kind, repositoryId: repositoryId ?? '', previousSeq: previous })
        previous = seq
      }
      const ids = again.map(({ id }) => id)
      if (ids.length + missed.length > 0) {
        const done = await db.transaction().execute((tx) => send(tx, webhook, { ids, missed }))
        replayed += done.replayed
        created += done.created
      }
      after = end
      examined += events.length + deliveries.length
    }
    if (replayed + created > 0) wake()
    const more = after < upTo
    return { replayed, created, more, next: more ? after : null }
  }

  async function send(
    tx: Db,
    { id: webhookId, url }: WebhookRow,
    { ids, missed }: { ids: string[]; missed: Missed[] },
  ) {
    const now = clock.now()
    const rows = missed.map(({ seq, kind: event, repositoryId, previousSeq }) => ({
      id: newId(now),
      webhookId,
      repositoryId,
      event,
      seq,
      previousSeq,
      url,
      createdAt: now,
      dueAt: now,
      // Requested manually, so it is sent even if the webhook is disabled.
      isWanted: 1,
    }))
    const replayed = await requestAttempts(tx, { webhookId, ids, now })
    const created = await insertDeliveries(tx, rows).catch(asGone(() => webhookNotFound(webhookId)))
    if (!(await bringForward(tx, webhookId, now, missed.at(-1)?.seq)))
      throw webhookNotFound(webhookId)
    return { replayed: replayed.length, created: created.length }
  }
}

function requireTimes({ since, until = since }: ReplayRequest, now: number): void {
  if (since > now + maxClockSkewMs)
    throw invalid([
      {
        pointer: '/since',
        detail: `must not be in the future: in milliseconds since the Unix epoch, now is ${now}.`,
      },
    ])
  if (since > until)
    throw invalid([
      { pointer: '/since', detail: `must not be after \`until\`, which is ${until}.` },
    ])
}

function endOf(rows: { seq: number }[], limit: number): number {
  return rows.length < limit ? Number.POSITIVE_INFINITY : (rows.at(-1)?.seq ?? 0)
}

/**
 * Finds the first event at or after a time by binary search, since events are ordered by time. Pruned events count as
 * having the time of the first one that remains.
 */
async function findFirstSeq(db: Db, time: number): Promise<number> {
  let [low, high] = [1, (await readLastSeq(db)) + 1]
  while (low < high) {
    const middle = Math.floor((low + high) / 2)
    const event = await readEventFrom(db, middle)
    if (!event || event.createdAt >= time) high = middle
    else low = middle + 1
  }
  return low
}
