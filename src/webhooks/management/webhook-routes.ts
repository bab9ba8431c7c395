import { Type } from 'typebox'
import { closed, field } from '#base/schema-options.ts'
import { Sensitive } from '#base/sensitive.ts'
import { PageQuery, paged } from '#http/pagination.ts'
import { type FindRequest, nothing, route } from '#http/route.ts'
import { apiPathOfScope, routesOfScopes, type ScopeAccess } from '#repositories/scopes.ts'
import { secretMaxLength } from '../signing-secrets.ts'
import { subscribableKinds } from '../subscribable-kinds.ts'
import { addressForm, addressMaxLength } from './webhook-address.ts'
import { NamespaceWebhook, Webhook } from './webhook-schemas.ts'
import { defaultKeepPreviousSeconds, maxWebhooks, type WebhookService } from './webhook-service.ts'

type Dependencies = ScopeAccess & { webhookService: WebhookService }

const maxKeepPreviousSeconds = 604_800

/** The routes of webhooks. No response contains a secret. */
export function webhookRoutes({ webhookService, ...access }: Dependencies) {
  return routesOfScopes(access, ({ kind, path, ...scope }) => {
    const [open, problems] = [scope.open('maintainer'), scope.problems('maintainer')]
    const reply = kind === 'namespace' ? NamespaceWebhook : Webhook
    const of = kind === 'namespace' ? ' all repositories of the namespace' : ' the repository'
    const webhookProblems = [...problems, 'webhook_not_found'] as const
    const find = async (request: FindRequest) =>
      webhookService.find(await open(request), request.params.id ?? '')

    return [
      route('GET', `${path}/webhooks`, {
        operationId: 'listWebhooks',
        tag: 'webhooks',
        summary: 'List webhooks',
        description: 'Oldest first. Responses never contain secrets.',
        permission: 'webhook:read',
        find: open,
        query: PageQuery,
        reply: { 200: Type.Array(reply) },
        problems,
        handle: (request) => paged(request, (page) => webhookService.list(request.found, page)),
      }),
      route('POST', `${path}/webhooks`, {
        operationId: 'createWebhook',
        tag: 'webhooks',
        summary: 'Create a webhook',
        description:
          `Events of${of} from now on are delivered to \`url\`. With a \`secret\`, which requires an encryption key on ` +
          `the server, deliveries are signed. There can be up to ${maxWebhooks} webhooks.`,
        permission: 'webhook:write',
        find: open,
        body: Type.Object({ url: Url, events: Events, secret: Type.Optional(Secret) }, closed),
        reply: { 201: reply },
        problems: [
          ...problems,
          'outbound_forbidden',
          'outbound_unresolved',
          'too_many_webhooks',
          'encryption_key_missing',
        ],
        handle: async ({ principal, found, body, setHeader, admitAgain }) => {
          const { url, events } = body
          const secret = body.secret === undefined ? undefined : new Sensitive(body.secret)
          const wanted = { url, events, secret }
          const webhook = await webhookService.create(principal, found, wanted, admitAgain)
          setHeader('location', `${apiPathOfScope(kind, found.name)}/webhooks/${webhook.id}`)
          return webhook
        },
      }),
      route('GET', `${path}/webhooks/:id`, {
        operationId: 'getWebhook',
        tag: 'webhooks',
        summary: 'Get a webhook',
        permission: 'webhook:read',
        find,
        reply: { 200: reply },
        problems: [...webhookProblems],
        handle: ({ found }) => webhookService.show(found),
      }),
      route('PATCH', `${path}/webhooks/:id`, {
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
        reply: { 200: reply },
        problems: [
          ...webhookProblems,
          'outbound_forbidden',
          'outbound_unresolved',
          'encryption_key_missing',
        ],
        handle: ({ principal, found, body, admitAgain }) => {
          const { secret: text, ...rest } = body
          const secret = typeof text === 'string' ? new Sensitive(text) : text
          return webhookService.change(principal, found, { ...rest, secret }, admitAgain)
        },
      }),
      route('DELETE', `${path}/webhooks/:id`, {
        operationId: 'deleteWebhook',
        tag: 'webhooks',
        summary: 'Delete a webhook and its deliveries',
        permission: 'webhook:write',
        find,
        reply: { 204: nothing },
        problems: [...webhookProblems],
        handle: async ({ principal, found }) => {
          await webhookService.remove(principal, found)
          return undefined
        },
      }),
    ]
  })
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
