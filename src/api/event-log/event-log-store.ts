import type { Visibility } from '#access/visibility.ts'
import type { Db } from '#database/schema.ts'
import { roleOfUser } from '#repositories/role-store.ts'
import type { VisibleEventKind } from './event-visibility.ts'

type EventQuery = {
  /** The range of sequence numbers, exclusive and inclusive. */
  after: number
  upTo: number
  limit: number
  /** Whether the newest events of the range come first. */
  isNewestFirst?: boolean
  kinds: readonly VisibleEventKind[]
  repositoryId: string | undefined
  /**
   * All events; or the events of repositories that a username can see, and events of some kinds without a repository.
   */
  whose:
    | 'all'
    | {
        username: string
        /** The visibilities of repositories that it can see without a role in them. */
        open: readonly Visibility[]
        kindsWithoutRepository: VisibleEventKind[]
        /** Restricts them to events of repositories with these ids. */
        within?: string[] | undefined
      }
}

/** Lists events, the oldest first unless the query says otherwise, with the names and owners of their repositories. */
export async function listEvents(db: Db, eventQuery: EventQuery) {
  const { after, upTo, limit, kinds, repositoryId, whose, isNewestFirst = false } = eventQuery
  if (kinds.length === 0) return []
  const username = whose === 'all' ? '' : whose.username
  let query = db
    .selectFrom('events')
    .leftJoin('repositories', (join) =>
      join
        .onRef('repositories.id', '=', 'events.repositoryId')
        .on('repositories.deletedAt', 'is', null),
    )
    .select(['events.seq', 'events.kind', 'events.repositoryId', 'events.actorId'])
    .select(['events.actorUsername', 'events.createdAt', 'events.data'])
    .select([
      'repositories.name',
      'repositories.ownerUsername',
      'repositories.namespaceId',
      'repositories.visibility',
    ])
    .select(roleOfUser(username).as('role'))
    .where('seq', '>', after)
    .where('seq', '<=', upTo)
    .where('kind', 'in', kinds)
    .orderBy('seq', isNewestFirst ? 'desc' : 'asc')
    .limit(limit)
  if (repositoryId !== undefined) query = query.where('events.repositoryId', '=', repositoryId)
  if (whose !== 'all') {
    const { open, kindsWithoutRepository, within } = whose
    if (within) query = query.where('events.repositoryId', 'in', within)
    query = query.where((is) =>
      is.or([
        is.and([
          is('repositories.ownerUsername', '=', username),
          is('repositories.namespaceId', 'is', null),
        ]),
        is(roleOfUser(username), 'is not', null),
        ...(open.length > 0 ? [is('repositories.visibility', 'in', open)] : []),
        is.and([is('repositories.id', 'is', null), is('kind', 'in', kindsWithoutRepository)]),
      ]),
    )
  }
  return query.execute()
}
