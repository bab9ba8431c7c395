import type { Expression, SqlBool } from 'kysely'
import type { Db } from '#database/schema.ts'

const batchSize = 1000

/** The sequence number of the last event; 0 when there is none. */
export async function readLastSeq(db: Db): Promise<number> {
  const row = await db
    .selectFrom('marks')
    .select('value')
    .where('name', '=', 'events')
    .executeTakeFirst()
  return row?.value ?? 0
}

/** The sequence numbers of the oldest and the last event; when all were pruned, `oldest` is `last + 1`. */
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

/** Lists the changes of refs after a sequence number: pushes, and changes of default branches. */
export function listRefChangesAfter(db: Db, seq: number) {
  return db
    .selectFrom('events')
    .select(['kind', 'repositoryId', 'data'])
    .where('seq', '>', seq)
    .where('kind', 'in', ['push', 'repository.default_branch'])
    .execute()
}

/** An event of a repository by its sequence number; undefined when it was pruned. */
export function findEvent(db: Db, repositoryId: string, seq: number) {
  return db
    .selectFrom('events')
    .select(['seq', 'kind', 'actorId', 'actorUsername', 'data', 'createdAt'])
    .where('seq', '=', seq)
    .where('repositoryId', '=', repositoryId)
    .executeTakeFirst()
}

/** The first event at or after a sequence number; undefined when there is none. */
export function readEventFrom(
  db: Db,
  seq: number,
): Promise<{ seq: number; createdAt: number } | undefined> {
  return db
    .selectFrom('events')
    .select(['seq', 'createdAt'])
    .where('seq', '>=', seq)
    .orderBy('seq')
    .limit(1)
    .executeTakeFirst()
}

/** Lists the events after a sequence number, in order. */
export function listEventsAfter(db: Db, seq: number, limit = batchSize) {
  return db
    .selectFrom('events')
    .select(['seq', 'kind', 'repositoryId', 'actorId', 'actorUsername', 'createdAt', 'data'])
    .where('seq', '>', seq)
    .orderBy('seq')
    .limit(limit)
    .execute()
}

/** Lists events for which a condition holds, after one sequence number and up to another, in order. */
export function listEventsBetween(
  db: Db,
  condition: Expression<SqlBool>,
  { after, upTo, limit }: { after: number; upTo: number; limit: number },
): Promise<{ seq: number; kind: string; repositoryId: string | null; createdAt: number }[]> {
  return db
    .selectFrom('events')
    .select(['seq', 'kind', 'repositoryId', 'createdAt'])
    .where(condition)
    .where('seq', '>', after)
    .where('seq', '<=', upTo)
    .orderBy('seq')
    .limit(limit)
    .execute()
}

/** The sequence number of the last event of some kinds for which a condition holds, before `seq`; 0 when there is none. */
export async function readSeqBefore(
  db: Db,
  condition: Expression<SqlBool>,
  { kinds, seq }: { kinds: string[]; seq: number },
): Promise<number> {
  const row = await db
    .selectFrom('events')
    .select('seq')
    .where(condition)
    .where('kind', 'in', kinds)
    .where('seq', '<', seq)
    .orderBy('seq', 'desc')
    .limit(1)
    .executeTakeFirst()
  return row?.seq ?? 0
}

/** The sequence number of a repository's nth event after `after`; undefined when there are fewer. */
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

/** The sequence number of a repository's nth event counted backwards from `upTo`; undefined when there are fewer. */
export async function findNthBefore(
  db: Db,
  { repositoryId, upTo, nth }: { repositoryId: string; upTo: number; nth: number },
): Promise<number | undefined> {
  const row = await db
    .selectFrom('events')
    .select('seq')
    .where('repositoryId', '=', repositoryId)
    .where('seq', '<=', upTo)
    .orderBy('seq', 'desc')
    .offset(nth - 1)
    .limit(1)
    .executeTakeFirst()
  return row?.seq
}

/** Lists the oldest events of the log. */
export function listOldest(db: Db, limit: number): Promise<{ seq: number; createdAt: number }[]> {
  return db.selectFrom('events').select(['seq', 'createdAt']).orderBy('seq').limit(limit).execute()
}

export async function deleteEventsUpTo(db: Db, seq: number): Promise<void> {
  await db.deleteFrom('events').where('seq', '<=', seq).execute()
}
