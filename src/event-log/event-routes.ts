import { Type } from 'typebox'
import { RepositoryName } from '../access/names.ts'
import { Problem } from '../base/problem.ts'
import { eventKinds } from '../events/events.ts'
import { named } from '../http/named-schemas.ts'
import { linkToNext } from '../http/pages.ts'
import { route } from '../http/route.ts'
import { eventStreamType, wantsEventStream } from '../http/server-sent-events.ts'
import type { EventLog } from './event-log.ts'
import { streamEvents } from './event-stream.ts'
import type { VisibleEventKind } from './event-visibility.ts'
import { createSubscriberLimit } from './subscriber-limit.ts'

const usualPage = 100
const waitMaxSeconds = 60

/** The route of the event log. */
export function eventRoutes(eventLog: EventLog) {
  const subscriberLimit = createSubscriberLimit()

  const toNumber = async (after: string) => (after === 'latest' ? eventLog.last() : Number(after))

  return [
    route('GET', '/events', {
      operationId: 'listEvents',
      tag: 'events',
      summary: 'Read the event log, oldest first',
      description:
        'Each caller gets the events that it may see. The `Link` header is always there and goes on where this ' +
        'answer ends, be it that it has no events. With `wait`, the answer comes when there is one, or after that ' +
        'many seconds. With the header `Accept: text/event-stream`, or with `follow=true`, the answer is a stream of ' +
        'server-sent events (`text/event-stream`): each has its number as `id`, its kind as `event`, and as `data` the ' +
        'object that the list has. It begins after the number in the header `Last-Event-ID`, which a client sends that ' +
        'goes on, else after `after`, else with the next event that comes.',
      permission: 'any',
      isLongLived: true,
      query: Type.Object({
        after: Type.Optional(
          Type.String({
            description:
              'the number of an event, after which to begin; `latest` for the last one, 0 for the oldest that is kept, as when left out',
            pattern: `^(latest|${eventNumber})$`,
          }),
        ),
        limit: Type.Optional(
          Type.Integer({
            description: 'how many at most, 1 to 1000; 100 when left out',
            minimum: 1,
            maximum: 1000,
          }),
        ),
        wait: Type.Optional(
          Type.Integer({
            description: `how long to wait for an event, 0 to ${waitMaxSeconds} seconds; 0, as when left out, answers at once, be it that there is none`,
            minimum: 0,
            maximum: waitMaxSeconds,
          }),
        ),
        follow: Type.Optional(
          Type.Boolean({
            description:
              '`true` for a stream of server-sent events, `false` for a list; the default depends on the header `Accept`',
          }),
        ),
        repository: Type.Optional(RepositoryName),
        kind: Type.Optional(
          Type.String({
            description: `kinds of events, separated by commas: ${eventKinds.join(', ')}`,
            pattern: `^(${anyKind})(,(${anyKind}))*$`,
            maxLength: 1000,
          }),
        ),
      }),
      eventStream:
        'One for each event: `id` is its number, `event` its kind, `data` the Event as JSON.',
      reply: { 200: Type.Array(LoggedEvent) },
      problems: [
        'permission_missing',
        'repository_not_found',
        'events_forgotten',
        'too_many_followers',
      ],
      handle: async ({ principal, query, url, header, requireAccess, ...context }) => {
        const { setHeader, setType, untilStopping } = context
        const { limit = usualPage, wait = 0, repository } = query
        const signal = untilStopping()
        const { selection, access } = await eventLog.select(principal, {
          repository,
          kinds: kindsOf(query),
        })
        if (access) requireAccess(access)
        if (wantsEventStream(query.follow, header('accept'))) {
          using entered = new DisposableStack()
          entered.use(subscriberLimit.enter(principal))
          const after = await toNumber(
            lastEventId(header('last-event-id')) ?? query.after ?? 'latest',
          )
          const stream = await streamEvents(eventLog, { selection, after, signal })
          const place = entered.move()
          stream.once('close', () => place.dispose())
          setType(eventStreamType)
          setHeader('x-accel-buffering', 'no')
          return stream
        }
        const after = await toNumber(query.after ?? '0')
        using _place = wait > 0 ? subscriberLimit.enter(principal) : undefined
        const seen = await eventLog.page({
          selection,
          after,
          limit,
          waitMs: wait * 1000,
          signal,
        })
        setHeader('link', linkToNext(url, { after: seen.upTo }))
        return seen.events
      },
    }),
  ]
}

const eventNumber = '0|[1-9][0-9]{0,14}'
const anyKind = eventKinds.join('|').replaceAll('.', '\\.')

function lastEventId(sent: string | undefined): string | undefined {
  if (sent === undefined || new RegExp(`^(${eventNumber})$`).test(sent)) return sent
  throw new Problem(
    'invalid_request',
    'The header Last-Event-ID is the number of an event, as the stream had it.',
  )
}

// The schema has let nothing else through.
function kindsOf({ kind }: { kind?: string }): VisibleEventKind[] | undefined {
  return kind?.split(',') as VisibleEventKind[] | undefined
}

const LoggedEvent = named(
  'Event',
  Type.Object({
    seq: Type.Integer({
      description: 'its number; numbers have no gaps, and later events greater ones',
    }),
    kind: Type.Enum([...eventKinds], { description: 'what happened; see docs/events.md' }),
    repositoryId: Type.Union([Type.String(), Type.Null()], {
      description: 'the id of the repository; null where the event is about none',
    }),
    repoName: Type.Union([Type.String(), Type.Null()], {
      description: 'what the repository is called now; null when it is gone, or there is none',
    }),
    actor: Type.Object(
      {
        id: Type.String({
          description: 'of the token or key, or `local` for a command on the server',
        }),
        username: Type.String({ description: 'the user whose it is' }),
      },
      { description: 'who did it' },
    ),
    createdAt: Type.Integer({
      description: 'when it happened, in milliseconds since the Unix epoch',
    }),
    data: Type.Unsafe<Record<string, unknown>>({
      type: 'object',
      description: 'by kind; see docs/events.md',
    }),
  }),
)
