import { type TSchema, Type } from 'typebox'
import { named } from '#http/named-schemas.ts'
import { subscribableKinds } from './subscribable-kinds.ts'

function orNull<T extends TSchema>(schema: T) {
  return Type.Union([schema, Type.Null()])
}

const text = (description: string) => Type.String({ description })
const number = (description: string) => Type.Integer({ description })
const time = (description: string) => number(`${description}, in milliseconds since the Unix epoch`)
const headers = (description: string) =>
  Type.Unsafe<Record<string, string>>({
    type: 'object',
    additionalProperties: { type: 'string' },
    description,
  })
const repoName = text('name of the repository')

export const Webhook = named(
  'Webhook',
  Type.Object({
    id: text('id of the webhook'),
    repoName,
    url: text('URL to which events are delivered'),
    events: Type.Array(Type.String(), {
      description: `events that are delivered, out of ${subscribableKinds.join(', ')}`,
    }),
    createdAt: time('when the webhook was created'),
    updatedAt: time('when the webhook was last changed'),
    enabled: Type.Boolean({ description: 'whether events are delivered' }),
    health: Type.Enum(['healthy', 'failing', 'disabled'], {
      description:
        '`failing` if the last attempt failed, `disabled` if nothing is delivered, else `healthy`',
    }),
    failingSince: orNull(
      time('start of the current series of failures; null if the last attempt succeeded'),
    ),
    disabledAt: orNull(time('when the webhook was disabled; null if it is enabled')),
    disabledReason: orNull(text('why the webhook was disabled; null if it is enabled')),
    hasSecret: Type.Boolean({ description: 'whether deliveries are signed' }),
    secretExpiresAt: orNull(
      time('until when deliveries are also signed with the previous secret; null if they are not'),
    ),
    lastSequence: number('sequence number of the last event for the webhook; 0 for none'),
    pending: number('number of pending deliveries'),
  }),
)

export const DeliveryState = Type.Enum(['pending', 'success', 'failed'], {
  description: '`pending`, `success` or `failed`',
})

const eventForm = '`push`, `workflow` or `ping`'
export const DeliveryEvent = Type.Enum([...subscribableKinds, 'ping'], { description: eventForm })

const delivery = {
  id: text('id of the delivery, the same in each attempt; sent in the header `webhook-id`'),
  webhookId: text('id of the webhook'),
  repoName,
  event: text(eventForm),
  url: text('URL of the receiver'),
  status: DeliveryState,
  attempts: number('number of attempts so far'),
  maxAttempts: number('number of automatic attempts'),
  createdAt: time('when the delivery was created'),
  lastAttemptAt: orNull(time('when the last attempt started; null before the first')),
  responseStatus: orNull(number('HTTP status of the last response; null if there was no response')),
  seq: orNull(number('sequence number of the event; null for a ping')),
  previousSeq: orNull(
    number('sequence number of the previous event for this webhook; 0 for none, null for a ping'),
  ),
  nextAttemptAt: orNull(time('when the next attempt is due; null if there is none')),
  completedAt: orNull(time('when the delivery succeeded or failed; null while it is pending')),
  duration: orNull(number('duration of the last attempt in milliseconds; null before the first')),
  error: orNull(text('why the last attempt failed; null if it did not')),
}

export const Delivery = named('DeliverySummary', Type.Object(delivery))

const Attempt = named(
  'DeliveryAttempt',
  Type.Object({
    attempt: number('number of the attempt, starting at 1'),
    trigger: Type.Enum(['schedule', 'manual'], {
      description: '`schedule`, or `manual` if it was requested',
    }),
    startedAt: time('when the attempt started'),
    duration: number('time until the response headers arrived, in milliseconds'),
    url: text('URL of the receiver'),
    requestHeaders: headers('request headers by name; signatures are hidden'),
    responseStatus: orNull(number('HTTP status of the response; null if there was none')),
    responseHeaders: headers('response headers by name; empty if there was no response'),
    responseBody: text('start of the response body as text, up to 16 KiB'),
    error: orNull(text('why the attempt failed; null if it did not')),
  }),
)

export const WholeDelivery = named(
  'Delivery',
  Type.Object({
    ...delivery,
    history: Type.Array(Attempt, { description: 'last 100 attempts, oldest first' }),
    body: orNull(text('JSON body of the request; null until it is composed')),
  }),
)

export const Replayed = named(
  'Replay',
  Type.Object({
    replayed: number('number of existing deliveries that are retried'),
    created: number('number of deliveries created for events without one'),
    more: Type.Boolean({ description: 'whether more events may be left to replay' }),
    next: orNull(
      Type.Integer({ description: 'value of `after` to continue; null if nothing is left' }),
    ),
  }),
)
