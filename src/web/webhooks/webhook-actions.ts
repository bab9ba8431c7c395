import { action, type PageContext } from '../page.ts'
import { fieldText, numberOf } from '../page-forms.ts'

const list = '/r/:name/webhooks'
const one = `${list}/:id`
const secretFields = { secret: 'Secret' }

const addressOf = ({ to, params }: PageContext) => to.of(params.name ?? '', `webhooks/${params.id}`)

export const webhookActions = [
  action(list, 'createWebhook', {
    formPage: list,
    isSensitive: true,
    secretFields,
    input: ({ fields }) => ({
      body: {
        url: fieldText(fields, 'url') ?? '',
        events: fields.getAll('events'),
        secret: fields.get('secret') || undefined,
      },
    }),
    redirectTo: ({ to, params }, value) =>
      to.of(params.name ?? '', `webhooks/${String(Object(value).id)}`),
    done: { text: 'The webhook is added. A ping shows whether its receiver answers.' },
  }),
  action(`${one}/edit`, 'updateWebhook', {
    formPage: one,
    isSensitive: true,
    secretFields,
    input({ fields }) {
      const isUnsigned = fields.get('unsigned') === 'true'
      const secret = isUnsigned ? null : fields.get('secret') || undefined
      const keep = typeof secret === 'string' && numberOf(fields, 'keepPreviousSecretSeconds')
      return {
        body: {
          url: fieldText(fields, 'url') ?? '',
          events: fields.getAll('events'),
          secret,
          ...(keep !== false && { keepPreviousSecretSeconds: keep }),
        },
      }
    },
    redirectTo: addressOf,
    done: { text: 'The webhook is saved.' },
  }),
  action(`${one}/enable`, 'updateWebhook', {
    formPage: one,
    input: () => ({ body: { enabled: true } }),
    redirectTo: addressOf,
    done: { text: 'The webhook is enabled.' },
  }),
  action(`${one}/disable`, 'updateWebhook', {
    formPage: one,
    input: () => ({ body: { enabled: false } }),
    redirectTo: addressOf,
    done: { text: 'The webhook is disabled.' },
  }),
  action(`${one}/delete`, 'deleteWebhook', {
    formPage: one,
    isSensitive: true,
    input: () => ({}),
    redirectTo: ({ to, params }) => to.of(params.name ?? '', 'webhooks'),
    done: { text: 'The webhook is deleted.' },
  }),
  action(`${one}/ping`, 'pingWebhook', {
    formPage: one,
    input: () => ({}),
    redirectTo: (context, value) => `${addressOf(context)}/deliveries/${String(Object(value).id)}`,
  }),
  action(`${one}/replay`, 'replayDeliveries', {
    formPage: one,
    input: ({ fields }) => ({ body: replayOf(fields) }),
    redirectTo: replayed,
  }),
  action(`${one}/deliveries/:delivery/retry`, 'retryDelivery', {
    formPage: `${one}/deliveries/:delivery`,
    input: ({ params }) => ({ params: { deliveryId: params.delivery ?? '' } }),
    redirectTo: (context) => `${addressOf(context)}/deliveries/${context.params.delivery}`,
    done: { text: 'The delivery is sent again.' },
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
  const text = fieldText(fields, name)
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
