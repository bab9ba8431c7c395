import { Type } from 'typebox'
import { apiPathOf } from '#base/repository-name.ts'
import { closed, field } from '#base/schema-options.ts'
import { Sensitive } from '#base/sensitive.ts'
import { PageQuery, paged } from '#http/pagination.ts'
import { type FindRequest, nothing, route } from '#http/route.ts'
import { openOfRoute } from '#repositories/open-repository.ts'
import type { Repositories } from '#repositories/repositories.ts'
import { secretMaxLength } from '../signing-secrets.ts'
import { subscribableKinds } from '../subscribable-kinds.ts'
import { addressForm, addressMaxLength } from './webhook-address.ts'
import { Webhook } from './webhook-schemas.ts'
import { defaultKeepPreviousSeconds, maxWebhooks, type WebhookService } from './webhook-service.ts'

type Dependencies = { repositories: Repositories; webhookService: WebhookService }

const missing = ['repository_not_found', 'owner_required', 'repository_importing'] as const
export const webhookMissing = [...missing, 'webhook_not_found'] as const
const maxKeepPreviousSeconds = 604_800

/** The routes of webhooks. No response contains a secret. */
export function webhookRoutes({ repositories, webhookService }: Dependencies) {
  const open = openOfRoute(repositories, 'maintainer')

  async function find(request: FindRequest<{ name: string; id: string }>) {
    const repository = await open(request)
    return { repository, webhook: await webhookService.find(repository, request.params.id) }
  }

  return [
    route('GET', '/repos/:name/webhooks', {
      operationId: 'listWebhooks',
      tag: 'webhooks',
      summary: 'List webhooks',
      description: 'Oldest first. Responses never contain secrets.',
      permission: 'webhook:read',
      find: open,
      query: PageQuery,
      reply: { 200: Type.Array(Webhook) },
      problems: [...missing],
      handle: (request) => paged(request, (page) => webhookService.list(request.found, page)),
    }),
    route('POST', '/repos/:name/webhooks', {
      operationId: 'createWebhook',
      tag: 'webhooks',
      summary: 'Create a webhook',
      description:
        'Events from now on are delivered to `url`. With a `secret`, which requires an encryption key on the server, ' +
        `deliveries are signed. A repository can have up to ${maxWebhooks} webhooks.`,
      permission: 'webhook:write',
      find: open,
      body: Type.Object({ url: Url, events: Events, secret: Type.Optional(Secret) }, closed),
      reply: { 201: Webhook },
      problems: [
        ...missing,
        'outbound_forbidden',
        'outbound_unresolved',
        'too_many_webhooks',
        'encryption_key_missing',
      ],
      handle: async ({ principal, found, body, setHeader }) => {
        const { url, events } = body
        const secret = body.secret === undefined ? undefined : new Sensitive(body.secret)
        const webhook = await webhookService.create(principal, found, { url, events, secret })
        setHeader('location', `${apiPathOf(found.name)}/webhooks/${webhook.id}`)
        return webhook
      },
    }),
    route('GET', '/repos/:name/webhooks/:id', {
      operationId: 'getWebhook',
      tag: 'webhooks',
      summary: 'Get a webhook',
      permission: 'webhook:read',
      find,
      reply: { 200: Webhook },
      problems: [...webhookMissing],
      handle: ({ found: { repository, webhook } }) => webhookService.show(repository, webhook),
    }),
    route('PATCH', '/repos/:name/webhooks/:id', {
      operationId: 'updateWebhook',
      tag: 'webhooks',
      summary: 'Update a webhook',
      description:
        'Omitted fields stay unchanged. Disabling a webhook fails its pending deliveries, and no deliveries are created ' +
        'while it is disabled; use a replay to send them later. Pending deliveries are sent to a new `url`.',
      permission: 'webhook:write',
      find,
      body: Type.Object(
        {
          url: Type.Optional(Url),
          events: Type.Optional(Events),
          secret: Type.Optional(field.orNull(Secret, `${secretForm}; null to stop signing`)),
          keepPreviousSecretSeconds: Type.Optional(
            Type.Integer({
              description:
                `the seconds for which deliveries are also signed with the previous secret, 0 to ${maxKeepPreviousSeconds}; ` +
                `defaults to ${defaultKeepPreviousSeconds}`,
              minimum: 0,
              maximum: maxKeepPreviousSeconds,
            }),
          ),
          enabled: Type.Optional(field.boolean('true or false: whether events are delivered')),
        },
        closed,
      ),
      reply: { 200: Webhook },
      problems: [
        ...webhookMissing,
        'outbound_forbidden',
        'outbound_unresolved',
        'encryption_key_missing',
      ],
      handle: ({ principal, found: { repository, webhook }, body }) => {
        const { secret: text, ...rest } = body
        const secret = typeof text === 'string' ? new Sensitive(text) : text
        return webhookService.change(principal, repository, webhook, { ...rest, secret })
      },
    }),
    route('DELETE', '/repos/:name/webhooks/:id', {
      operationId: 'deleteWebhook',
      tag: 'webhooks',
      summary: 'Delete a webhook and its deliveries',
      permission: 'webhook:write',
      find,
      reply: { 204: nothing },
      problems: [...webhookMissing],
      handle: async ({ principal, found: { webhook } }) => {
        await webhookService.remove(principal, webhook)
        return undefined
      },
    }),
  ]
}

const Url = Type.String({
  description: addressForm,
  'x-form': addressForm,
  minLength: 1,
  maxLength: addressMaxLength,
})

const Events = Type.Array(Type.Enum([...subscribableKinds]), {
  description: `unique events out of ${subscribableKinds.join(', ')}`,
  minItems: 1,
  maxItems: subscribableKinds.length,
  uniqueItems: true,
})

const secretForm = `a signing secret of 1 to ${secretMaxLength} characters`
const Secret = Type.String({ description: secretForm, minLength: 1, maxLength: secretMaxLength })
