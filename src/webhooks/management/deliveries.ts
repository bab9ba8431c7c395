import type { Clock } from '#base/clock.ts'
import { isId } from '#base/ids.ts'
import { Problem } from '#base/problem.ts'
import type { Database } from '#database/database.ts'
import type { WebhookRow } from '#database/schema.ts'
import { recordActions } from '#events/audit/record.ts'
import type { Actor } from '#events/events.ts'
import { type NamedScope, placeOf } from '#repositories/scopes.ts'
import {
  type DeliveryFilter,
  findBody,
  findDelivery,
  listAttempts,
  listDeliveries,
  type NamedDelivery,
  requestAttempts,
} from '../delivery-store.ts'
import type { Schedule } from '../retry-schedule.ts'
import { bringForward } from '../webhook-store.ts'
import { createReplay, type Replay } from './replay.ts'
import { type ScopedWebhook, webhookNotFound } from './webhook-service.ts'
import { type AttemptView, type DeliveryView, toAttempt, toDelivery } from './webhook-view.ts'

/** The deliveries of webhooks: lists, retries and replays them. */
export type Deliveries = {
  /** Throws `delivery_not_found`. */
  find: (webhook: WebhookRow, id: string) => Promise<NamedDelivery>
  show: (scope: NamedScope, delivery: NamedDelivery) => DeliveryView
  list: (
    webhook: WebhookRow,
    page: DeliveryFilter & { before: string; limit: number },
  ) => Promise<NamedDelivery[]>
  /** A delivery with its attempts and body. */
  showWhole: (
    scope: NamedScope,
    delivery: NamedDelivery,
  ) => Promise<DeliveryView & { history: AttemptView[]; body: string | null }>
  /**
   * Makes a delivery due at once, in any state, to the current URL of the webhook. One that is in flight is sent again
   * right after. Throws `delivery_not_found`, `webhook_not_found`.
   */
  retry: (actor: Actor, webhook: ScopedWebhook, id: string) => Promise<NamedDelivery>
  replay: Replay
}

type Dependencies = {
  db: Database
  clock: Clock
  /** The delays before the attempts, one for each. */
  schedule: Schedule
  /** Called when a delivery has become due. */
  wake: () => void
}

const maxAttemptsShown = 100

export function createDeliveries({ db, clock, schedule, wake }: Dependencies): Deliveries {
  const replay = createReplay({ db, clock, wake })

  async function find({ id: webhookId }: WebhookRow, id: string): Promise<NamedDelivery> {
    const delivery = isId(id) ? await findDelivery(db, webhookId, id) : undefined
    if (!delivery) throw notFound(id)
    return delivery
  }

  const show = (scope: NamedScope, delivery: NamedDelivery) => toDelivery(scope, delivery, schedule)

  return {
    find,

    show,

    list: ({ id }, page) => listDeliveries(db, id, page),

    async showWhole(scope, delivery) {
      const { seq, repositoryName } = delivery
      // Who maintains the namespace may not see a repository that has left it, and a ping is of none.
      if (seq !== null && repositoryName === null)
        return { ...show(scope, delivery), history: [], body: null }
      const attempts = await listAttempts(db, delivery.id, maxAttemptsShown)
      const body = (await findBody(db, delivery.id)) ?? null
      return { ...show(scope, delivery), history: attempts.map(toAttempt), body }
    },

    async retry(actor, { id: webhookId, scope }, id) {
      const now = clock.now()
      const { repositoryId, inNamespace } = placeOf(scope)
      const row = await db.transaction().execute(async (tx) => {
        // First: deliveries and webhooks are locked after the event counter.
        const data = { webhookId, deliveryId: id, ...inNamespace }
        await recordActions(tx, now, [{ action: 'delivery.retried', actor, repositoryId, data }])
        await requestAttempts(tx, { webhookId, ids: [id], now })
        if (!(await bringForward(tx, webhookId, now))) throw webhookNotFound(webhookId)
        return findDelivery(tx, webhookId, id)
      })
      if (!row) throw notFound(id)
      wake()
      return row
    },

    replay,
  }
}

function notFound(id: string): Problem {
  return new Problem('delivery_not_found', `There is no delivery with the id "${id}".`)
}
