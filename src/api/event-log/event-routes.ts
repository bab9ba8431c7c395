import { Type } from 'typebox'
import { RepositoryName } from '#access/names.ts'
import { limitKeyOf, type Principal } from '#access/principal.ts'
import { createQuota } from '#base/concurrency/quota.ts'
import { Problem } from '#base/problem.ts'
import { field, textForm } from '#base/schema-options.ts'
import { eventKinds } from '#events/events.ts'
import { named } from '#http/named-schemas.ts'
import { linkToNext } from '#http/pagination.ts'
import { route } from '#http/route.ts'
import { eventStreamType, wantsEventStream } from '#http/server-sent-events.ts'
import type { EventLog } from './event-log.ts'
import { streamEvents } from './event-stream.ts'
import type { VisibleEventKind } from './event-visibility.ts'

const defaultPageSize = 100
const waitMaxSeconds = 60

/** The route of the event log. */
export function eventRoutes(eventLog: EventLog) {
  const subscriberLimit = createSubscriberLimit()

  const toNumber = async (after: string) => (after === 'latest' ? eventLog.last() : Number(after))

  return [
    route('GET', '/events', {
      operationId: 'listEvents',
      tag: 'events',
      summary: 'List events',
      description:
        'Lists the events that the caller can see, oldest first, or with `before` newest first. The `Link` header has ' +
        'the next page, even if this one is empty. With `wait`, the response is delayed until there is an event, or for that many seconds. ' +
        'With the header `Accept: text/event-stream` or with `follow=true`, the response is a stream of server-sent ' +
        'events (`text/event-stream`): `id` is the sequence number, `event` the kind, and `data` the same object as in ' +
        'the list. The stream starts after the event in the header `Last-Event-ID`, which clients send when they ' +
        'reconnect, else after `after`, else with the next new event.',
      permission: 'any',
      allowsLimited: true,
      isLongLived: true,
      query: Type.Object({
        after: Type.Optional(
          Type.String({
            ...eventPlace,
            description:
              'the sequence number after which to start, or `latest`; defaults to 0, the start of the log',
          }),
        ),
        before: Type.Optional(
          Type.String({
            ...eventPlace,
            description:
              'the sequence number before which to end, or `latest`: lists the newest events first, and the `Link` header has the next older page, if there is one',
          }),
        ),
        limit: Type.Optional(
          Type.Integer({
            description: 'the maximum number of events, 1 to 1000; defaults to 100',
            minimum: 1,
            maximum: 1000,
          }),
        ),
        wait: Type.Optional(
          Type.Integer({
            description: `the seconds to wait for an event, 0 to ${waitMaxSeconds}; defaults to 0, which does not wait`,
            minimum: 0,
            maximum: waitMaxSeconds,
          }),
        ),
        follow: Type.Optional(
          field.boolean(
            '`true` for a stream of server-sent events, `false` for a list; defaults to what the header `Accept` requests',
          ),
        ),
        repository: Type.Optional(RepositoryName),
        kind: Type.Optional(
          Type.String({
            ...textForm(
              `kinds of events, separated by commas: ${eventKinds.join(', ')}`,
              `^(${anyKind})(,(${anyKind}))*$`,
            ),
            maxLength: 1000,
          }),
        ),
      }),
      eventStream:
        'A message for each event: `id` is its sequence number, `event` its kind, `data` the Event as JSON.',
      reply: { 200: Type.Array(LoggedEvent) },
      problems: [
        'permission_missing',
        'repository_not_found',
        'events_forgotten',
        'too_many_followers',
      ],
      handle: async ({ principal, query, url, header, ...context }) => {
        const { setHeader, setType, waitSignal } = context
        const { limit = defaultPageSize, wait = 0, repository } = query
        const signal = waitSignal()
        // The reader of the log, not the access watch, notices the loss of a repository: it still sends the event of
        // the loss.
        const selection = await eventLog.select(principal, {
          repository,
          kinds: kindsOf(query),
        })
        if (wantsEventStream(query.follow, header('accept'))) {
          using opening = new DisposableStack()
          opening.use(subscriberLimit.acquire(principal))
          const after = await toNumber(
            lastEventId(header('last-event-id')) ?? query.after ?? 'latest',
          )
          const stream = await streamEvents(eventLog, { selection, after, signal })
          const permit = opening.move()
          stream.once('close', () => permit.dispose())
          setType(eventStreamType)
          setHeader('x-accel-buffering', 'no')
          return stream
        }
        if (query.before !== undefined) {
          const before = query.before === 'latest' ? undefined : Number(query.before)
          const { events, next } = await eventLog.pageBack({ selection, before, limit })
          if (next !== undefined) setHeader('link', linkToNext(url, { before: next }))
          return events
        }
        const after = await toNumber(query.after ?? '0')
        using _permit = wait > 0 ? subscriberLimit.acquire(principal) : undefined
        const batch = await eventLog.page({
          selection,
          after,
          limit,
          waitMs: wait * 1000,
          signal,
        })
        setHeader('link', linkToNext(url, { after: batch.upTo }))
        return batch.events
      },
    }),
  ]
}

const eventNumber = '0|[1-9][0-9]{0,14}'
const eventPlace = textForm(
  'the sequence number of an event, or `latest`',
  `^(latest|${eventNumber})$`,
)
const anyKind = eventKinds.join('|').replaceAll('.', '\\.')

function lastEventId(sent: string | undefined): string | undefined {
  if (sent === undefined || new RegExp(`^(${eventNumber})$`).test(sent)) return sent
  throw new Problem(
    'invalid_request',
    'The header Last-Event-ID must be the id of an event of the stream.',
  )
}

// The schema has validated the kinds.
function kindsOf({ kind }: { kind?: string }): VisibleEventKind[] | undefined {
  return kind?.split(',') as VisibleEventKind[] | undefined
}

export const LoggedEvent = named(
  'Event',
  Type.Object({
    seq: field.integer('sequence number; numbers increase without gaps'),
    kind: Type.Enum([...eventKinds], { description: 'kind of the event; see docs/events.md' }),
    repositoryId: field.orNull(Type.String(), 'id of the repository; null if the event has none'),
    repoName: field.orNull(
      Type.String(),
      'current name of the repository; null if it was deleted or the event has none',
    ),
    actor: Type.Object(
      {
        id: field.text('id of the token or SSH key, or `local` for a command on the server'),
        username: field.text('user that owns the token or SSH key'),
      },
      { description: 'principal that caused the event' },
    ),
    createdAt: field.time('when the event happened'),
    data: Type.Unsafe<Record<string, unknown>>({
      type: 'object',
      description: 'details by kind; see docs/events.md',
    }),
  }),
)

const maxPerUser = 100
const maxOverall = 1000
const retryAfterSeconds = 10

/** Limits the requests that wait for events, since each holds a connection for as long as its client likes. */
export function createSubscriberLimit() {
  const quota = createQuota({ overall: maxOverall, perKey: maxPerUser })

  return {
    /** Counts a waiting request of a user, until disposed. Throws `too_many_followers`. */
    acquire(principal: Principal): Disposable {
      const permit = quota.acquire(limitKeyOf(principal))
      if (permit === 'per-key') throw tooMany(`A user can have ${maxPerUser} requests`)
      if (permit === 'overall') throw tooMany(`The server can have ${maxOverall} requests`)
      return permit
    },
  }
}

function tooMany(limit: string): Problem {
  const detail = `${limit} waiting for events; end one, or request events without \`wait\` and \`follow\`.`
  return new Problem('too_many_followers', detail, { retryAfterSeconds })
}
