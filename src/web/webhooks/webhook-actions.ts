import { action, type PageContext } from '../page.ts'
import { numberOf, textOf } from '../page-forms.ts'

const list = '/r/:name/webhooks'
const one = `${list}/:id`
const secretFields = { secret: 'Secret' }

const addressOf = ({ to, params }: PageContext) => to.of(params.name ?? '', `webhooks/${params.id}`)

export const webhookActions = [
  action(list, 'createWebhook', {
    of: list,
    isSensitive: true,
    secretFields,
    input: ({ fields }) => ({
      body: {
        url: textOf(fields, 'url') ?? '',
        events: fields.getAll('events'),
        secret: fields.get('secret') || undefined,
      },
    }),
    next: ({ to, params }, value) =>
      to.of(params.name ?? '', `webhooks/${String(Object(value).id)}`),
  }),
  action(`${one}/edit`, 'updateWebhook', {
    of: one,
    isSensitive: true,
    secretFields,
    input({ fields }) {
      const isUnsigned = fields.get('unsigned') === 'true'
      const secret = isUnsigned ? null : fields.get('secret') || undefined
      const keep = typeof secret === 'string' && numberOf(fields, 'keepPreviousSecretSeconds')
      return {
        body: {
          url: textOf(fields, 'url') ?? '',
          events: fields.getAll('events'),
          secret,
          ...(keep !== false && { keepPreviousSecretSeconds: keep }),
        },
      }
    },
    next: addressOf,
  }),
  action(`${one}/enable`, 'updateWebhook', {
    of: one,
    input: () => ({ body: { enabled: true } }),
    next: addressOf,
  }),
  action(`${one}/disable`, 'updateWebhook', {
    of: one,
    input: () => ({ body: { enabled: false } }),
    next: addressOf,
  }),
  action(`${one}/delete`, 'deleteWebhook', {
    of: one,
    isSensitive: true,
    input: () => ({}),
    next: ({ to, params }) => to.of(params.name ?? '', 'webhooks'),
  }),
  action(`${one}/ping`, 'pingWebhook', {
    of: one,
    input: () => ({}),
    next: (context, value) => `${addressOf(context)}/deliveries/${String(Object(value).id)}`,
  }),
  action(`${one}/replay`, 'replayDeliveries', {
    of: one,
    input: ({ fields }) => ({ body: replayOf(fields) }),
    next: replayed,
  }),
  action(`${one}/deliveries/:delivery/retry`, 'retryDelivery', {
    of: `${one}/deliveries/:delivery`,
    input: ({ params }) => ({ params: { deliveryId: params.delivery ?? '' } }),
    next: (context) => `${addressOf(context)}/deliveries/${context.params.delivery}`,
  }),
]

function replayOf(fields: URLSearchParams) {
  return {
    since: timeOf(fields, 'since'),
    until: timeOf(fields, 'until'),
    onlyFailed: fields.get('onlyFailed') === 'true',
    after: numberOf(fields, 'after'),
  }
}

/** A time in UTC; a text that is none as it is, for the API to refuse. */
function timeOf(fields: URLSearchParams, name: string): number | string | undefined {
  const text = textOf(fields, name)
  if (text === undefined) return undefined
  const at = Date.parse(`${text}Z`)
  return Number.isNaN(at) ? text : at
}

/** To the page of the webhook, which says what was done and goes on with the rest. */
function replayed(context: PageContext, value: unknown): string {
  const { fields } = context
  const { replayed: count, created, next } = Object(value)
  const query = new URLSearchParams({ replayed: String(count), created: String(created) })
  if (next !== null) {
    for (const name of ['since', 'until', 'onlyFailed']) query.set(name, fields.get(name) ?? '')
    query.set('after', String(next))
  }
  return `${addressOf(context)}?${query}`
}
