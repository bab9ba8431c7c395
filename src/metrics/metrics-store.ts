import type { Db } from '../database/schema.ts'

export async function countRepositories(db: Db): Promise<number> {
  const { count } = await db
    .selectFrom('repositories')
    .select((is) => is.fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow()
  return count
}

/** Pushes that were allowed and are not finished. */
export async function countUnfinishedPushes(db: Db): Promise<number> {
  const { count } = await db
    .selectFrom('pushes')
    .select((is) => is.fn.countAll<number>().as('count'))
    .where('finishedAt', 'is', null)
    .executeTakeFirstOrThrow()
  return count
}

/** Webhook deliveries that wait for an attempt. */
export async function countPendingDeliveries(db: Db): Promise<number> {
  const { count } = await db
    .selectFrom('deliveries')
    .select((is) => is.fn.countAll<number>().as('count'))
    .where('status', '=', 'pending')
    .executeTakeFirstOrThrow()
  return count
}

/** Since when the delivery waits that is due the longest; undefined when none is. */
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
