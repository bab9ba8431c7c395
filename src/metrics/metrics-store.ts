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
