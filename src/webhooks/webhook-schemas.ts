import { type TSchema, Type } from 'typebox'
import { subscribableKinds } from '../events/fan-out.ts'
import { named } from '../http/named-schemas.ts'

function orNull<T extends TSchema>(schema: T) {
  return Type.Union([schema, Type.Null()])
}

const text = (description: string) => Type.String({ description })
const number = (description: string) => Type.Integer({ description })
const time = (what: string) => number(`${what}, in milliseconds since the Unix epoch`)
const headers = (description: string) =>
  Type.Unsafe<Record<string, string>>({
    type: 'object',
    additionalProperties: { type: 'string' },
    description,
  })
const repoName = text("the repository's name")

export const Webhook = named(
  'Webhook',
  Type.Object({
    id: text('its id, for addresses'),
    repoName,
    url: text('where deliveries are sent'),
    events: Type.Array(Type.String(), { description: `of ${subscribableKinds.join(', ')}` }),
    createdAt: time('when it was made'),
    updatedAt: time('when it was last changed'),
    enabled: Type.Boolean({ description: 'whether deliveries are made' }),
    health: Type.Enum(['healthy', 'failing', 'disabled'], {
      description:
        '`failing` when the last attempt failed, `disabled` when nothing is sent, else `healthy`',
    }),
    failingSince: orNull(
      time('since when all attempts have failed; null when the last one did not'),
    ),
    disabledAt: orNull(time('when it was disabled; null while it is enabled')),
    disabledReason: orNull(text('why it was disabled; null while it is enabled')),
    hasSecret: Type.Boolean({ description: 'whether deliveries are signed' }),
    secretExpiresAt: orNull(
      time('until when they are signed with the secret before, too; null when they are not'),
    ),
    lastSequence: number('the number of the last event that it was told of; 0 for none'),
    pending: number('how many deliveries wait or are being sent'),
  }),
)

export const DeliveryState = Type.Enum(['pending', 'success', 'failed'], {
  description: '`pending`, `success` or `failed`',
})

const eventForm = '`push`, `workflow` or `ping`'
export const DeliveryEvent = Type.Enum([...subscribableKinds, 'ping'], { description: eventForm })

const delivery = {
  id: text('its id, the same on each attempt; receivers get it in `webhook-id`'),
  webhookId: text('the id of the webhook'),
  repoName,
  event: text(eventForm),
  url: text('where it is sent'),
  status: DeliveryState,
  attempts: number('how many attempts were made'),
  maxAttempts: number('how many attempts are made without being asked for'),
  createdAt: time('when it was made'),
  lastAttemptAt: orNull(time('when the last attempt began; null before the first')),
  responseStatus: orNull(
    number('the status that the receiver answered last; null when it gave no answer'),
  ),
  seq: orNull(number('the number of the event; null for a ping')),
  previousSeq: orNull(
    number(
      'the number of the event that this webhook was told of before; 0 for none, null for a ping',
    ),
  ),
  nextAttemptAt: orNull(time('when the next attempt is due; null when there is to be none')),
  completedAt: orNull(time('when it succeeded or was given up; null while it is pending')),
  duration: orNull(number('of the last attempt, in milliseconds; null before the first')),
  error: orNull(text('why the last attempt failed; null when it did not')),
}

export const Delivery = named('DeliverySummary', Type.Object(delivery))

const Attempt = named(
  'DeliveryAttempt',
  Type.Object({
    attempt: number('counts the attempts from 1'),
    trigger: Type.Enum(['schedule', 'manual'], {
      description: '`schedule`, or `manual` when somebody asked for it',
    }),
    startedAt: time('when it began'),
    duration: number('until the head of the answer was there, in milliseconds'),
    url: text('where it was sent'),
    requestHeaders: headers('what was sent, by name; signatures are hidden'),
    responseStatus: orNull(number('the status of the answer; null when there was none')),
    responseHeaders: headers('of the answer, by name; empty when there was none'),
    responseBody: text('the first bytes of the answer, 16 KiB at most, as text'),
    error: orNull(text('why it failed; null when it did not')),
  }),
)

export const WholeDelivery = named(
  'Delivery',
  Type.Object({
    ...delivery,
    history: Type.Array(Attempt, { description: 'its last 100 attempts, oldest first' }),
    body: orNull(text('what is sent, JSON; null until it is composed')),
  }),
)

export const Replayed = named(
  'Replay',
  Type.Object({
    replayed: number('deliveries that are attempted again'),
    created: number('deliveries that were made of events without one'),
    more: Type.Boolean({ description: 'whether there may be more to replay' }),
    next: orNull(
      Type.Integer({ description: '`after` of the request that goes on; null when that was all' }),
    ),
  }),
)
