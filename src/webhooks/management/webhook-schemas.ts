import { type TProperties, Type } from 'typebox'
import { field } from '#base/schema-options.ts'
import { named } from '#http/named-schemas.ts'
import { subscribableKinds } from '../subscribable-kinds.ts'

const headers = (description: string) =>
  Type.Unsafe<Record<string, string>>({
    type: 'object',
    additionalProperties: { type: 'string' },
    description,
  })
const ofRepository = { repoName: field.text('name of the repository') }
const ofNamespace = { namespace: field.text('name of the namespace') }
const ofDelivery = {
  ...ofNamespace,
  repoName: field.orNull(
    field.text('name of the repository; null for a ping, and when it has left the namespace'),
  ),
}

function webhookSchema<P extends TProperties>(name: string, place: P) {
  return named(
    name,
    Type.Object({
      id: field.text('id of the webhook'),
      ...place,
      url: field.text('URL to which events are delivered'),
      events: field.texts(`events that are delivered, out of ${subscribableKinds.join(', ')}`),
      createdAt: field.time('when the webhook was created'),
      updatedAt: field.time('when the webhook was last changed'),
      enabled: field.boolean('whether events are delivered'),
      health: Type.Enum(['healthy', 'failing', 'disabled'], {
        description:
          '`failing` if the last attempt failed, `disabled` if nothing is delivered, else `healthy`',
      }),
      failingSince: field.orNull(
        field.time('start of the current series of failures; null if the last attempt succeeded'),
      ),
      disabledAt: field.orNull(field.time('when the webhook was disabled; null if it is enabled')),
      disabledReason: field.orNull(
        field.text('why the webhook was disabled; null if it is enabled'),
      ),
      hasSecret: field.boolean('whether deliveries are signed'),
      secretExpiresAt: field.orNull(
        field.time(
          'until when deliveries are also signed with the previous secret; null if they are not',
        ),
      ),
      lastSequence: field.integer('sequence number of the last event for the webhook; 0 for none'),
      pending: field.integer('number of pending deliveries'),
    }),
  )
}

export const Webhook = webhookSchema('Webhook', ofRepository)
export const NamespaceWebhook = webhookSchema('NamespaceWebhook', ofNamespace)

export const DeliveryState = Type.Enum(['pending', 'success', 'failed'], {
  description: '`pending`, `success` or `failed`',
})

const eventForm = '`push`, `workflow` or `ping`'
export const DeliveryEvent = Type.Enum([...subscribableKinds, 'ping'], { description: eventForm })

const deliveryFields = <P extends TProperties>(place: P) => ({
  id: field.text('id of the delivery, the same in each attempt; sent in the header `webhook-id`'),
  webhookId: field.text('id of the webhook'),
  ...place,
  event: field.text(eventForm),
  url: field.text('URL of the receiver'),
  status: DeliveryState,
  attempts: field.integer('number of attempts so far'),
  maxAttempts: field.integer('number of automatic attempts'),
  createdAt: field.time('when the delivery was created'),
  lastAttemptAt: field.orNull(field.time('when the last attempt started; null before the first')),
  responseStatus: field.orNull(
    field.integer('HTTP status of the last response; null if there was no response'),
  ),
  seq: field.orNull(field.integer('sequence number of the event; null for a ping')),
  previousSeq: field.orNull(
    field.integer(
      'sequence number of the previous event for this webhook; 0 for none, null for a ping',
    ),
  ),
  nextAttemptAt: field.orNull(field.time('when the next attempt is due; null if there is none')),
  completedAt: field.orNull(
    field.time('when the delivery succeeded or failed; null while it is pending'),
  ),
  duration: field.orNull(
    field.integer('duration of the last attempt in milliseconds; null before the first'),
  ),
  error: field.orNull(field.text('why the last attempt failed; null if it did not')),
})

export const Delivery = named('DeliverySummary', Type.Object(deliveryFields(ofRepository)))
export const NamespaceDelivery = named(
  'NamespaceDeliverySummary',
  Type.Object(deliveryFields(ofDelivery)),
)

const Attempt = named(
  'DeliveryAttempt',
  Type.Object({
    attempt: field.integer('number of the attempt, starting at 1'),
    trigger: Type.Enum(['schedule', 'manual'], {
      description: '`schedule`, or `manual` if it was requested',
    }),
    startedAt: field.time('when the attempt started'),
    duration: field.integer('time until the response headers arrived, in milliseconds'),
    url: field.text('URL of the receiver'),
    requestHeaders: headers('request headers by name; signatures are hidden'),
    responseStatus: field.orNull(
      field.integer('HTTP status of the response; null if there was none'),
    ),
    responseHeaders: headers('response headers by name; empty if there was no response'),
    responseBody: field.text('start of the response body as text, up to 16 KiB'),
    error: field.orNull(field.text('why the attempt failed; null if it did not')),
  }),
)

const ofWhole = {
  history: Type.Array(Attempt, {
    description:
      'last 100 attempts, oldest first; empty once the repository has left the namespace',
  }),
  body: field.orNull(
    field.text(
      'JSON body of the request; null until it is composed, and once the repository has left the namespace',
    ),
  ),
}

export const WholeDelivery = named(
  'Delivery',
  Type.Object({ ...deliveryFields(ofRepository), ...ofWhole }),
)
export const WholeNamespaceDelivery = named(
  'NamespaceDelivery',
  Type.Object({ ...deliveryFields(ofDelivery), ...ofWhole }),
)

export const Replayed = named(
  'Replay',
  Type.Object({
    replayed: field.integer('number of existing deliveries that are retried'),
    created: field.integer('number of deliveries created for events without one'),
    more: field.boolean('whether more events may be left to replay'),
    next: field.orNull(field.integer('value of `after` to continue; null if nothing is left')),
  }),
)
