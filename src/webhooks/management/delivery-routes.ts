import { Type } from 'typebox'
import { closed, field } from '#base/schema-options.ts'
import { linkToNext, PageQuery } from '#http/pagination.ts'
import { type FindRequest, route } from '#http/route.ts'
import {
  apiPathOfScope,
  type NamedScope,
  routesOfScopes,
  type ScopeAccess,
} from '#repositories/scopes.ts'
import type { Deliveries } from './deliveries.ts'
import { maxReplayed } from './replay.ts'
import {
  Delivery,
  DeliveryEvent,
  DeliveryState,
  NamespaceDelivery,
  Replayed,
  WholeDelivery,
  WholeNamespaceDelivery,
} from './webhook-schemas.ts'
import type { WebhookService } from './webhook-service.ts'

type Dependencies = ScopeAccess & {
  webhookService: WebhookService
  deliveries: Deliveries
}

const defaultPageSize = 100

/** The routes of webhook deliveries. */
export function deliveryRoutes({ webhookService, deliveries, ...access }: Dependencies) {
  return routesOfScopes(access, ({ kind, path, ...scope }) => {
    const [open, problems] = [scope.open('maintainer'), scope.problems('maintainer')]
    const isNamespace = kind === 'namespace'
    const [brief, whole] = isNamespace
      ? ([NamespaceDelivery, WholeNamespaceDelivery] as const)
      : ([Delivery, WholeDelivery] as const)
    const webhookProblems = [...problems, 'webhook_not_found'] as const
    const deliveryProblems = [...webhookProblems, 'delivery_not_found'] as const

    const findWebhook = async (request: FindRequest) =>
      webhookService.find(await open(request), request.params.id ?? '')

    async function find(request: FindRequest) {
      const webhook = await findWebhook(request)
      return { webhook, delivery: await deliveries.find(webhook, request.params.deliveryId ?? '') }
    }

    return [
      route('GET', `${path}/webhooks/:id/deliveries`, {
        operationId: 'listDeliveries',
        tag: 'webhooks',
        summary: 'List deliveries of a webhook',
        description: `Newest first. A page has ${defaultPageSize} deliveries by default.`,
        permission: 'webhook:read',
        find: findWebhook,
        query: Type.Object({
          ...PageQuery.properties,
          status: Type.Optional(DeliveryState),
          event: Type.Optional(DeliveryEvent),
        }),
        reply: { 200: Type.Array(brief) },
        problems: [...webhookProblems],
        handle: async ({ found: webhook, query, url, setHeader }) => {
          const { limit = defaultPageSize, cursor: before = '', status, event } = query
          const rows = await deliveries.list(webhook, { before, limit: limit + 1, status, event })
          const page = rows.slice(0, limit)
          const last = page.at(-1)
          if (rows.length > limit && last)
            setHeader('link', linkToNext(url, { limit, cursor: last.id }))
          return page.map((row) => deliveries.show(webhook.scope, row))
        },
      }),
      route('GET', `${path}/webhooks/:id/deliveries/:deliveryId`, {
        operationId: 'getDelivery',
        tag: 'webhooks',
        summary: 'Get a delivery with its attempts and body',
        permission: 'webhook:read',
        find,
        reply: { 200: whole },
        problems: [...deliveryProblems],
        handle: ({ found: { webhook, delivery } }) => deliveries.showWhole(webhook.scope, delivery),
      }),
      route('POST', `${path}/webhooks/:id/deliveries/:deliveryId/retry`, {
        operationId: 'retryDelivery',
        tag: 'webhooks',
        summary: 'Retry a delivery',
        description:
          'Attempts a delivery in any state again at once, with the same id and body. This counts as an attempt; if it ' +
          'fails, it is retried while there were fewer than `maxAttempts`.',
        permission: 'webhook:write',
        find,
        reply: { 202: brief },
        problems: [...deliveryProblems],
        handle: async ({ principal, found: { webhook, delivery } }) =>
          deliveries.show(webhook.scope, await deliveries.retry(principal, webhook, delivery.id)),
      }),
      route('POST', `${path}/webhooks/:id/ping`, {
        operationId: 'pingWebhook',
        tag: 'webhooks',
        summary: 'Ping a webhook',
        description: 'Sends a ping in a single attempt, even if the webhook is disabled.',
        permission: 'webhook:write',
        find: findWebhook,
        reply: { 202: brief },
        problems: [...webhookProblems],
        handle: async ({ principal, found: webhook, setHeader }) => {
          const delivery = await webhookService.ping(principal, webhook)
          setHeader('location', addressOf(webhook.scope, delivery))
          return deliveries.show(webhook.scope, delivery)
        },
      }),
      route('POST', `${path}/webhooks/:id/replay`, {
        operationId: 'replayDeliveries',
        tag: 'webhooks',
        summary: 'Replay events of a period',
        description:
          'Retries the deliveries of events in the period, and creates deliveries for events that have none because the ' +
          `webhook was disabled or did not exist yet. A request replays up to ${maxReplayed} deliveries, oldest first; ` +
          'to continue, repeat it with `after` set to `next`.',
        permission: 'webhook:write',
        find: findWebhook,
        body: Type.Object(
          {
            since: Type.Integer({ description: `the start of the period ${timeForm}`, ...anyTime }),
            until: Type.Optional(
              Type.Integer({
                description: `the end of the period ${timeForm}; defaults to now`,
                ...anyTime,
              }),
            ),
            onlyFailed: Type.Optional(
              field.boolean(
                'true to replay only failed deliveries and events since the webhook was created; defaults to false',
              ),
            ),
            after: Type.Optional(
              Type.Integer({
                description: 'the `next` of the previous response',
                minimum: 0,
                maximum: Number.MAX_SAFE_INTEGER,
              }),
            ),
          },
          closed,
        ),
        reply: { 202: Replayed },
        problems: [...webhookProblems],
        handle: ({ principal, found: webhook, body }) =>
          deliveries.replay(principal, webhook, body),
      }),
    ]
  })
}

const timeForm = 'in milliseconds since the Unix epoch'
const anyTime = { minimum: 0, maximum: Number.MAX_SAFE_INTEGER }

function addressOf(
  { kind, name }: NamedScope,
  { id, webhookId }: { id: string; webhookId: string },
) {
  return `${apiPathOfScope(kind, name)}/webhooks/${webhookId}/deliveries/${id}`
}
