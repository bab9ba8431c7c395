import type { Clock } from '#base/clock.ts'
import { isId } from '#base/ids.ts'
import { Problem } from '#base/problem.ts'
import type { Database } from '#database/database.ts'
import type { DeliveryRow, WebhookRow } from '#database/schema.ts'
import { recordActions } from '#events/audit/record.ts'
import type { Actor } from '#events/events.ts'
import type { Repository } from '#repositories/repositories.ts'
import {
  type DeliveryFilter,
  findBody,
  findDelivery,
  listAttempts,
  listDeliveries,
  requestAttempts,
} from '../delivery-store.ts'
import type { Schedule } from '../retry-schedule.ts'
import { bringForward } from '../webhook-store.ts'
import { createReplay, type Replay } from './replay.ts'
import { webhookNotFound } from './webhook-service.ts'
import { type AttemptView, type DeliveryView, toAttempt, toDelivery } from './webhook-view.ts'

/** The deliveries of webhooks: lists, retries and replays them. */
export type Deliveries = {
  /** Throws `delivery_not_found`. */
  find: (webhook: WebhookRow, id: string) => Promise<DeliveryRow>
  show: (repository: Repository, delivery: DeliveryRow) => DeliveryView
  list: (
    webhook: WebhookRow,
    page: DeliveryFilter & { before: string; limit: number },
  ) => Promise<DeliveryRow[]>
  /** A delivery with its attempts and body. */
  showWhole: (
    repository: Repository,
    delivery: DeliveryRow,
  ) => Promise<DeliveryView & { history: AttemptView[]; body: string | null }>
  /**
   * Makes a delivery due at once, in any state, to the current URL of the webhook. One that is in flight is sent again
   * right after. Throws `delivery_not_found`, `webhook_not_found`.
   */
  retry: (actor: Actor, webhook: WebhookRow, id: string) => Promise<DeliveryRow>
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

  async function find({ id: webhookId }: WebhookRow, id: string): Promise<DeliveryRow> {
    const delivery = isId(id) ? await findDelivery(db, webhookId, id) : undefined
    if (!delivery) throw notFound(id)
    return delivery
  }

  const show = (repository: Repository, delivery: DeliveryRow) =>
    toDelivery(repository, delivery, schedule)

  return {
    find,

    show,

    list: ({ id }, page) => listDeliveries(db, id, page),

    async showWhole(repository, delivery) {
      const attempts = await listAttempts(db, delivery.id, maxAttemptsShown)
      const body = (await findBody(db, delivery.id)) ?? null
      return { ...show(repository, delivery), history: attempts.map(toAttempt), body }
    },

    async retry(actor, { id: webhookId, repositoryId }, id) {
      const now = clock.now()
      const row = await db.transaction().execute(async (tx) => {
        // First: deliveries and webhooks are locked after the event counter.
        const data = { webhookId, deliveryId: id }
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
