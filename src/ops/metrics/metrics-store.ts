import type { Db } from '#database/schema.ts'

/**
 * The number of authorized pushes that are not finalized, except to deleted repositories, where they wait for a
 * restoration.
 */
export async function countUnfinishedPushes(db: Db): Promise<number> {
  const { count } = await db
    .selectFrom('pushes')
    .select((is) => is.fn.countAll<number>().as('count'))
    .where('finishedAt', 'is', null)
    .where('repositoryId', 'in', (of) =>
      of.selectFrom('repositories').select('id').where('deletedAt', 'is', null),
    )
    .executeTakeFirstOrThrow()
  return count
}

export async function countPendingDeliveries(db: Db): Promise<number> {
  const { count } = await db
    .selectFrom('deliveries')
    .select((is) => is.fn.countAll<number>().as('count'))
    .where('status', '=', 'pending')
    .executeTakeFirstOrThrow()
  return count
}

/** The due time of the delivery that is overdue the longest; undefined when none is due. */
export async function findOldestDue(db: Db, now: number): Promise<number | undefined> {
  const row = await db
    .selectFrom('webhooks')
    .select('dueAt')
    .where('dueAt', '<=', now)
    .orderBy('dueAt')
    .limit(1)
    .executeTakeFirst()
  return row?.dueAt ?? undefined
}
