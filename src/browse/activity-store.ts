import { sql } from 'kysely'
import { idBefore } from '#base/ids.ts'
import type { Db, RunRow } from '#database/schema.ts'

/** The end of a run, or its state until then. */
export type BriefRun = Pick<RunRow, 'number' | 'status' | 'conclusion'>

/** The newest runs of repositories, oldest first. */
export async function listNewestRuns(
  db: Db,
  repositoryIds: readonly string[],
  limit: number,
): Promise<Map<string, BriefRun[]>> {
  const ofOne = (id: string) =>
    db
      .selectFrom(
        db
          .selectFrom('runs')
          .select(['repositoryId', 'number', 'status', 'conclusion'])
          .where('repositoryId', '=', id)
          .orderBy('id', 'desc')
          .limit(limit)
          .as('newest'),
      )
      .selectAll('newest')
  const [first, ...rest] = repositoryIds
  const found = new Map<string, BriefRun[]>()
  if (first === undefined) return found
  const rows = await rest.reduce((all, id) => all.unionAll(ofOne(id)), ofOne(first)).execute()
  for (const { repositoryId, number, status, conclusion } of rows) {
    const runs = found.get(repositoryId) ?? []
    runs.push({ number, status, conclusion })
    found.set(repositoryId, runs)
  }
  for (const runs of found.values()) runs.sort((one, other) => one.number - other.number)
  return found
}

/** Counts the pushes of repositories in periods, which begin at some times and end at the next one. */
export async function countPushesIn(
  db: Db,
  repositoryIds: readonly string[],
  starts: readonly number[],
): Promise<Map<string, number[]>> {
  const found = new Map<string, number[]>()
  const [first, ...later] = starts
  if (first === undefined || repositoryIds.length === 0) return found
  // By the times of the ids alone, for which the index suffices.
  const periods = later.map(
    (start, index) => sql`when id < ${idBefore(start)} then ${sql.lit(index)}`,
  )
  const period = sql<number>`case ${sql.join(periods, sql` `)} else ${sql.lit(later.length)} end`
  const rows = await db
    .selectFrom(
      db
        .selectFrom('pushes')
        .select(['repositoryId', period.as('period')])
        .where('repositoryId', 'in', repositoryIds)
        .where('id', '>=', idBefore(first))
        .as('counted'),
    )
    .select(({ fn }) => ['repositoryId', 'period', fn.countAll().as('count')])
    .groupBy(['repositoryId', 'period'])
    .execute()
  for (const row of rows) {
    const counts = found.get(row.repositoryId) ?? starts.map(() => 0)
    counts[Number(row.period)] = Number(row.count)
    found.set(row.repositoryId, counts)
  }
  return found
}
