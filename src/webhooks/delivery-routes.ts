import { Type } from 'typebox'
import { linkToNext, PageQuery } from '../http/pages.ts'
import { closed, type FindRequest, route } from '../http/route.ts'
import type { Repositories, Repository } from '../repositories/repositories.ts'
import type { Deliveries } from './deliveries.ts'
import { replayedAtMost } from './replay.ts'
import {
  Delivery,
  DeliveryEvent,
  DeliveryState,
  Replayed,
  WholeDelivery,
} from './webhook-schemas.ts'
import type { WebhookService } from './webhook-service.ts'

type Dependencies = {
  repositories: Repositories
  webhookService: WebhookService
  deliveries: Deliveries
}

const usualPage = 100
const webhookMissing = [
  'repository_not_found',
  'owner_required',
  'repository_importing',
  'webhook_not_found',
] as const
const deliveryMissing = [...webhookMissing, 'delivery_not_found'] as const

/** The routes of what is sent to webhooks. */
export function deliveryRoutes({ repositories, webhookService, deliveries }: Dependencies) {
  async function findWebhook(asked: FindRequest<{ name: string; id: string }>) {
    const { principal, permission, params } = asked
    const repository = await repositories.open(principal, params.name, permission, 'owner')
    return { repository, webhook: await webhookService.find(repository, params.id) }
  }

  async function find(asked: FindRequest<{ name: string; id: string; deliveryId: string }>) {
    const { repository, webhook } = await findWebhook(asked)
    const delivery = await deliveries.find(webhook, asked.params.deliveryId)
    return { repository, webhook, delivery }
  }

  return [
    route('GET', '/repos/:name/webhooks/:id/deliveries', {
      operationId: 'listDeliveries',
      tag: 'webhooks',
      summary: 'List the deliveries, newest first',
      description: `A page has ${usualPage} unless \`limit\` says otherwise.`,
      permission: 'webhook:read',
      find: findWebhook,
      query: Type.Object({
        ...PageQuery.properties,
        status: Type.Optional(DeliveryState),
        event: Type.Optional(DeliveryEvent),
      }),
      reply: { 200: Type.Array(Delivery) },
      problems: [...webhookMissing],
      handle: async ({ found: { repository, webhook }, query, url, setHeader }) => {
        const { limit = usualPage, cursor: before = '', status, event } = query
        const rows = await deliveries.list(webhook, { before, limit: limit + 1, status, event })
        const page = rows.slice(0, limit)
        const last = page.at(-1)
        if (rows.length > limit && last)
          setHeader('link', linkToNext(url, { limit, cursor: last.id }))
        return page.map((row) => deliveries.show(repository, row))
      },
    }),
    route('GET', '/repos/:name/webhooks/:id/deliveries/:deliveryId', {
      operationId: 'getDelivery',
      tag: 'webhooks',
      summary: 'Get a delivery, with its attempts and what is sent',
      permission: 'webhook:read',
      find,
      reply: { 200: WholeDelivery },
      problems: [...deliveryMissing],
      handle: ({ found: { repository, delivery } }) => deliveries.showWhole(repository, delivery),
    }),
    route('POST', '/repos/:name/webhooks/:id/deliveries/:deliveryId/retry', {
      operationId: 'retryDelivery',
      tag: 'webhooks',
      summary: 'Attempt a delivery again, at once',
      description:
        'Whatever has become of it, and with the same id and body. It counts as an attempt; when it fails, further ' +
        'ones are made as long as there were fewer than `maxAttempts`.',
      permission: 'webhook:write',
      find,
      reply: { 202: Delivery },
      problems: [...deliveryMissing],
      handle: async ({ found: { repository, webhook, delivery } }) =>
        deliveries.show(repository, await deliveries.retry(webhook, delivery.id)),
    }),
    route('POST', '/repos/:name/webhooks/:id/ping', {
      operationId: 'pingWebhook',
      tag: 'webhooks',
      summary: 'Send a ping to a webhook',
      description: 'One attempt is made, also of a webhook that is disabled.',
      permission: 'webhook:write',
      find: findWebhook,
      reply: { 202: Delivery },
      problems: [...webhookMissing],
      handle: async ({ found: { repository, webhook }, setHeader }) => {
        const delivery = await webhookService.ping(webhook)
        setHeader('location', addressOf(repository, delivery))
        return deliveries.show(repository, delivery)
      },
    }),
    route('POST', '/repos/:name/webhooks/:id/replay', {
      operationId: 'replayDeliveries',
      tag: 'webhooks',
      summary: 'Send again what happened in some time',
      description:
        'Deliveries of events in that time are attempted again, and events that the webhook was not told of, as it ' +
        `was disabled or not there yet, get a delivery. At most ${replayedAtMost} in a request, oldest first; when there ` +
        'is more, the same request with `after` set to `next` goes on.',
      permission: 'webhook:write',
      find: findWebhook,
      body: Type.Object(
        {
          since: Type.Integer({ description: `when it began, ${timeForm}`, ...anyTime }),
          until: Type.Optional(
            Type.Integer({
              description: `when it ended, ${timeForm}; now when left out`,
              ...anyTime,
            }),
          ),
          onlyFailed: Type.Optional(
            Type.Boolean({
              description:
                'true for deliveries that failed alone, and events since the webhook was made; false for all',
            }),
          ),
          after: Type.Optional(
            Type.Integer({
              description: 'the `next` of the answer before, to go on from there',
              minimum: 0,
              maximum: Number.MAX_SAFE_INTEGER,
            }),
          ),
        },
        closed,
      ),
      reply: { 202: Replayed },
      problems: [...webhookMissing],
      handle: ({ found: { webhook }, body }) => deliveries.replay(webhook, body),
    }),
  ]
}

const timeForm = 'in milliseconds since the Unix epoch'
const anyTime = { minimum: 0, maximum: Number.MAX_SAFE_INTEGER }

function addressOf({ name }: Repository, { id, webhookId }: { id: string; webhookId: string }) {
  return `/repos/${name}/webhooks/${webhookId}/deliveries/${id}`
}
