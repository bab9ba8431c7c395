import type { Db } from '../database/schema.ts'
import type { VisibleEventKind } from './event-visibility.ts'

/** The numbers of the oldest event that is kept, and of the last one; the former is the greater when none is kept. */
export async function readExtent(db: Db): Promise<{ oldest: number; last: number }> {
  const { last, oldest } = await db
    .selectFrom('marks')
    .select((is) => [
      'value as last',
      is
        .selectFrom('events')
        .select(({ fn }) => fn.min('seq').as('oldest'))
        .as('oldest'),
    ])
    .where('name', '=', 'events')
    .executeTakeFirstOrThrow()
  return { last, oldest: oldest ?? last + 1 }
}

/** The number of a repository's event that is so many after a number; undefined when there are not as many. */
export async function findNth(
  db: Db,
  { repositoryId, after, nth }: { repositoryId: string; after: number; nth: number },
): Promise<number | undefined> {
  const row = await db
    .selectFrom('events')
    .select('seq')
    .where('repositoryId', '=', repositoryId)
    .where('seq', '>', after)
    .orderBy('seq')
    .offset(nth - 1)
    .limit(1)
    .executeTakeFirst()
  return row?.seq
}

type Wanted = {
  /** Events with numbers above the first, up to the second. */
  after: number
  upTo: number
  limit: number
  kinds: readonly VisibleEventKind[]
  repositoryId: string | undefined
  /** All, or those of repositories that exist for a username, and of some kinds those that have none. */
  whose: 'all' | { username: string; kindsWithoutRepository: VisibleEventKind[] }
}

/** Events in order, with what their repositories are called and who owns them. */
export async function listEvents(db: Db, wanted: Wanted) {
  const { after, upTo, limit, kinds, repositoryId, whose } = wanted
  if (kinds.length === 0) return []
  const username = whose === 'all' ? '' : whose.username
  let query = db
    .selectFrom('events')
    .leftJoin('repositories', 'repositories.id', 'events.repositoryId')
    .leftJoin('collaborators', (join) =>
      join
        .onRef('collaborators.repositoryId', '=', 'events.repositoryId')
        .on('collaborators.username', '=', username),
    )
    .select(['events.seq', 'events.kind', 'events.repositoryId', 'events.actorId'])
    .select(['events.actorUsername', 'events.createdAt', 'events.data'])
    .select(['repositories.name', 'repositories.ownerUsername'])
    .select('collaborators.username as collaborator')
    .where('seq', '>', after)
    .where('seq', '<=', upTo)
    .where('kind', 'in', kinds)
    .orderBy('seq')
    .limit(limit)
  if (repositoryId !== undefined) query = query.where('events.repositoryId', '=', repositoryId)
  if (whose !== 'all') {
    const others = whose.kindsWithoutRepository
    query = query.where((is) =>
      is.or([
        is('repositories.ownerUsername', '=', username),
        is('collaborators.username', 'is not', null),
        is.and([is('repositories.id', 'is', null), is('kind', 'in', others)]),
      ]),
    )
  }
  return query.execute()
}

/** All events after a number, as many as are read at once. */
export function listAllAfter(db: Db, { after, limit }: { after: number; limit: number }) {
  return db
    .selectFrom('events')
    .select(['seq', 'kind', 'repositoryId', 'actorId', 'actorUsername', 'createdAt', 'data'])
    .where('seq', '>', after)
    .orderBy('seq')
    .limit(limit)
    .execute()
}

/** What a repository is called, and whom it exists for. */
export type RepositoryAudience = {
  name: string
  ownerUsername: string
  collaborators: ReadonlySet<string>
}

/** The place of a repository; undefined when it is gone. */
export async function findRepositoryAudience(
  db: Db,
  repositoryId: string,
): Promise<RepositoryAudience | undefined> {
  const rows = await db
    .selectFrom('repositories')
    .leftJoin('collaborators', 'collaborators.repositoryId', 'repositories.id')
    .select(['name', 'ownerUsername', 'username'])
    .where('id', '=', repositoryId)
    .execute()
  const [first] = rows
  if (!first) return undefined
  const collaborators = new Set(rows.flatMap(({ username }) => username ?? []))
  return { name: first.name, ownerUsername: first.ownerUsername, collaborators }
}

/** The oldest events, with their times. */
export function listOldest(db: Db, limit: number): Promise<{ seq: number; createdAt: number }[]> {
  return db.selectFrom('events').select(['seq', 'createdAt']).orderBy('seq').limit(limit).execute()
}

/** The number of the oldest event of which something is to be sent that is not composed; infinite when there is none. */
export async function oldestUnsent(db: Db): Promise<number> {
  const row = await db
    .selectFrom('deliveries')
    .leftJoin('deliveryBodies', 'deliveryBodies.deliveryId', 'deliveries.id')
    .select(({ fn }) => fn.min('seq').as('seq'))
    .where('status', '=', 'pending')
    .where('deliveryBodies.deliveryId', 'is', null)
    .executeTakeFirst()
  return row?.seq ?? Number.POSITIVE_INFINITY
}

export async function deleteUpTo(db: Db, seq: number): Promise<void> {
  await db.deleteFrom('events').where('seq', '<=', seq).execute()
}
