import type { Clock } from '../base/clock.ts'
import { newId } from '../base/ids.ts'
import type { Database } from '../database/database.ts'
import type { Db, WebhookRow } from '../database/schema.ts'
import { invalid } from '../http/validation.ts'
import { asGone } from '../repositories/repository-errors.ts'
import { insertDeliveries, wantAttempts } from './delivery-store.ts'
import {
  listDeliveriesBetween,
  listEventsBetween,
  readEventFrom,
  readLastSeq,
  readSeqBefore,
} from './replay-store.ts'
import { webhookNotFound } from './webhook-service.ts'
import { bringForward } from './webhook-store.ts'

type Dependencies = { db: Database; clock: Clock; wake: () => void }

type Wanted = {
  since: number
  until?: number | undefined
  onlyFailed?: boolean | undefined
  after?: number | undefined
}

/** An event that is to be sent again, or for the first time: then it has no delivery yet. */
type Missed = { seq: number; kind: string; previousSeq: number }

/** Deliveries of one request, at most. */
export const replayedAtMost = 5000

const rowsAtOnce = 500
// Where there is little to replay among much, a request does not look for it for ever.
const lookedAtAtMost = 100_000
/** Clocks of several servers, and a clock that was set back: events of one number may be older than of one before. */
const clocksDifferMs = 60_000

/** Sends what happened in some time again, by the event log: what was not delivered, or never told. */
export function createReplay({ db, clock, wake }: Dependencies) {
  /**
   * Looks at events and deliveries in order of their numbers, in pieces, each of which is a transaction. Nothing
   * is made twice: of an event a webhook has one delivery. Throws `invalid_request` for times of which nothing can be.
   */
  return async function replay(webhook: WebhookRow, wanted: Wanted) {
    requireTimes(wanted, clock.now())
    const { since, until = clock.now(), onlyFailed = false } = wanted
    const first = await findFirstSeq(db, since - clocksDifferMs)
    const later = await readEventFrom(db, await findFirstSeq(db, until + clocksDifferMs + 1))
    const upTo = later ? later.seq - 1 : await readLastSeq(db)
    const isIn = (time: number) => since <= time && time <= until
    const { repositoryId } = webhook
    const kinds = webhook.events.split(' ')
    const isMissed = (time: number) => isIn(time) && (!onlyFailed || time >= webhook.createdAt)
    let after = Math.max(wanted.after ?? 0, first - 1)
    let previous: number | undefined
    let [replayed, created, lookedAt] = [0, 0, 0]
    while (after < upTo && replayed + created < replayedAtMost && lookedAt < lookedAtAtMost) {
      const limit = Math.min(rowsAtOnce, replayedAtMost - replayed - created)
      const range = { after, upTo, limit }
      const events = await listEventsBetween(db, repositoryId, range)
      const deliveries = await listDeliveriesBetween(db, webhook.id, range)
      // Of the one list that was cut off nothing is known behind its end.
      const end = Math.min(endOf(events, limit), endOf(deliveries, limit), upTo)
      const told = new Set(deliveries.map(({ seq }) => seq))
      const again = deliveries.filter(
        ({ seq, status, happenedAt }) =>
          seq <= end && isIn(happenedAt) && (!onlyFailed || status === 'failed'),
      )
      const missed: Missed[] = []
      for (const { seq, kind, createdAt } of events) {
        if (seq > end || !kinds.includes(kind)) continue
        previous ??= await readSeqBefore(db, { repositoryId, kinds, seq })
        if (!told.has(seq) && isMissed(createdAt)) missed.push({ seq, kind, previousSeq: previous })
        previous = seq
      }
      const ids = again.map(({ id }) => id)
      if (ids.length + missed.length > 0) {
        const done = await db.transaction().execute((tx) => send(tx, webhook, { ids, missed }))
        replayed += done.replayed
        created += done.created
      }
      after = end
      lookedAt += events.length + deliveries.length
    }
    if (replayed + created > 0) wake()
    const more = after < upTo
    return { replayed, created, more, next: more ? after : null }
  }

  async function send(
    tx: Db,
    { id: webhookId, repositoryId, url }: WebhookRow,
    { ids, missed }: { ids: string[]; missed: Missed[] },
  ) {
    const now = clock.now()
    const rows = missed.map(({ seq, kind: event, previousSeq }) => ({
      id: newId(now),
      webhookId,
      repositoryId,
      event,
      seq,
      previousSeq,
      url,
      createdAt: now,
      dueAt: now,
      // Asked for by hand: it is sent to a webhook that is disabled, too.
      isWanted: 1,
    }))
    const replayed = await wantAttempts(tx, { webhookId, ids, now })
    const created = await insertDeliveries(tx, rows).catch(asGone(() => webhookNotFound(webhookId)))
    if (!(await bringForward(tx, webhookId, now, missed.at(-1)?.seq)))
      throw webhookNotFound(webhookId)
    return { replayed: replayed.length, created: created.length }
  }
}

function requireTimes({ since, until = since }: Wanted, now: number): void {
  const takes = 'it takes a time in milliseconds since the Unix epoch'
  if (since > now + clocksDifferMs)
    throw invalid([{ pointer: '/since', detail: `is in the future; ${takes}, now is ${now}.` }])
  if (since > until)
    throw invalid([{ pointer: '/since', detail: `is after \`until\`; ${takes}, up to ${until}.` }])
}

function endOf(rows: { seq: number }[], limit: number): number {
  return rows.length < limit ? Number.POSITIVE_INFINITY : (rows.at(-1)?.seq ?? 0)
}

/**
 * The lowest number from which on all happened at a time or later, found by halves: events are in order of time. Those
 * that are forgotten count as if they had happened with the first that is not.
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
