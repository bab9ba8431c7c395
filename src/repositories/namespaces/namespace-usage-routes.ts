import { Type } from 'typebox'
import { field } from '#base/schema-options.ts'
import { named } from '#http/named-schemas.ts'
import { type FindRequest, route } from '#http/route.ts'
import type { NamespaceUsage } from './namespace-usage.ts'
import type { Namespaces } from './namespaces.ts'

type Dependencies = {
  namespaces: Pick<Namespaces, 'open'>
  namespaceUsage: Pick<NamespaceUsage, 'read'>
}

/** The route of the usage of a namespace. */
export function namespaceUsageRoutes({ namespaces, namespaceUsage }: Dependencies) {
  return [
    route('GET', '/namespaces/:namespace/usage', {
      operationId: 'getNamespaceUsage',
      tag: 'namespaces',
      summary: 'Get the usage of a namespace',
      description:
        'What its repositories take now, without deleted ones, and its days in UTC, newest first: those of the last 30 ' +
        'days without `since` and `until`. Days are kept for 400 days. For its members and admins.',
      permission: 'repo:read',
      find: ({ principal, params }: FindRequest<{ namespace: string }>) =>
        namespaces.open(principal, params.namespace, 'read'),
      query: Type.Object({
        since: Type.Optional(time('only days from this time on')),
        until: Type.Optional(time('only days up to this time')),
      }),
      reply: { 200: NamespaceUsageReply },
      problems: ['token_limited', 'role_insufficient', 'namespace_not_found'],
      async handle({ found, query }) {
        const { maxRepositories, maxBytes } = found
        const { repositories, bytes, days } = await namespaceUsage.read(found, query)
        return {
          ...{ repositories, maxRepositories, bytes, maxBytes },
          days: days.map(({ runMs, ...day }) => ({
            ...day,
            runMinutes: Math.ceil(runMs / 60_000),
          })),
        }
      },
    }),
  ]
}

function time(description: string) {
  return Type.Integer({
    description: `${description}, in milliseconds since the Unix epoch`,
    minimum: 0,
    // The last one that a date can have.
    maximum: 8.64e15,
  })
}

export const NamespaceUsageReply = named(
  'NamespaceUsage',
  Type.Object({
    repositories: field.integer('Number of its repositories'),
    maxRepositories: field.orNull(Type.Integer(), 'Most repositories; null without a limit'),
    bytes: field.integer(
      'Bytes of the packs and Git LFS objects of its repositories, also of deleted ones until they are purged',
    ),
    maxBytes: field.orNull(Type.Integer(), 'Most bytes; null without a limit'),
    days: Type.Array(
      Type.Object({
        day: field.text('Day in UTC, such as `2026-11-30`'),
        pushes: field.integer('Number of pushes'),
        fetches: field.integer('Number of fetches'),
        receivedBytes: field.integer('Bytes of Git and Git LFS that the servers received'),
        sentBytes: field.integer('Bytes of Git and Git LFS that the servers sent'),
        runMinutes: field.integer('Minutes of workflow runs, rounded up'),
      }),
      { description: 'Days with any usage' },
    ),
  }),
)
