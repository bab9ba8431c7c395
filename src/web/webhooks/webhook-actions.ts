import { action, type PageAction, type PageContext } from '../page.ts'
import { fieldText, numberOf } from '../page-forms.ts'
import { allWebhooksOf, type WebhooksOf } from './webhooks-of.ts'

const secretFields = { secret: 'Secret' }

export const webhookActions = allWebhooksOf.flatMap(actionsOf)

function actionsOf({ path: list, toOperation, address }: WebhooksOf): PageAction[] {
  const one = `${list}/:id`
  const addressOf = (context: PageContext) => `${address(context)}/${context.params.id}`

  return [
    action(list, toOperation('createWebhook'), {
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
      redirectTo: (context, value) => `${address(context)}/${String(Object(value).id)}`,
      done: { text: 'The webhook is added. A ping shows whether its receiver answers.' },
    }),
    action(`${one}/edit`, toOperation('updateWebhook'), {
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
    action(`${one}/enable`, toOperation('updateWebhook'), {
      formPage: one,
      input: () => ({ body: { enabled: true } }),
      redirectTo: addressOf,
      done: { text: 'The webhook is enabled.' },
    }),
    action(`${one}/disable`, toOperation('updateWebhook'), {
      formPage: one,
      input: () => ({ body: { enabled: false } }),
      redirectTo: addressOf,
      done: { text: 'The webhook is disabled.' },
    }),
    action(`${one}/delete`, toOperation('deleteWebhook'), {
      formPage: one,
      isSensitive: true,
      input: () => ({}),
      redirectTo: address,
      done: { text: 'The webhook is deleted.' },
    }),
    action(`${one}/ping`, toOperation('pingWebhook'), {
      formPage: one,
      input: () => ({}),
      redirectTo: (context, value) =>
        `${addressOf(context)}/deliveries/${String(Object(value).id)}`,
    }),
    action(`${one}/replay`, toOperation('replayDeliveries'), {
      formPage: one,
      input: ({ fields }) => ({ body: replayOf(fields) }),
      redirectTo: (context, value) => replayed(context, addressOf(context), value),
    }),
    action(`${one}/deliveries/:delivery/retry`, toOperation('retryDelivery'), {
      formPage: `${one}/deliveries/:delivery`,
      input: ({ params }) => ({ params: { deliveryId: params.delivery ?? '' } }),
      redirectTo: (context) => `${addressOf(context)}/deliveries/${context.params.delivery}`,
      done: { text: 'The delivery is sent again.' },
    }),
  ]
}

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
function replayed({ fields }: PageContext, address: string, value: unknown): string {
  const { replayed: count, created, next } = Object(value)
  const query = new URLSearchParams({ replayed: String(count), created: String(created) })
  if (next !== null) {
    for (const name of ['since', 'until', 'onlyFailed']) query.set(name, fields.get(name) ?? '')
    query.set('after', String(next))
  }
  return `${address}?${query}`
}
