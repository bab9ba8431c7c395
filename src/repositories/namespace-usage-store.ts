import type { Db, NamespaceDayRow } from '#database/schema.ts'

/** What is counted of a namespace on a day. */
export type DayCounts = Omit<NamespaceDayRow, 'namespaceId' | 'day'>

const idsPerQuery = 1000

/** The namespaces of repositories, by their ids; without those that are in none. */
export async function findNamespacesOf(
  db: Db,
  repositoryIds: readonly string[],
): Promise<Map<string, { id: string; name: string }>> {
  const found = new Map<string, { id: string; name: string }>()
  for (let start = 0; start < repositoryIds.length; start += idsPerQuery) {
    const rows = await db
      .selectFrom('repositories')
      .innerJoin('namespaces', 'namespaces.id', 'repositories.namespaceId')
      .select(['repositories.id as repositoryId', 'namespaces.id', 'namespaces.name'])
      .where('repositories.id', 'in', repositoryIds.slice(start, start + idsPerQuery))
      .execute()
    for (const { repositoryId, id, name } of rows) found.set(repositoryId, { id, name })
  }
  return found
}

/** Adds counts to the row of a namespace and a day. */
export async function addToDay(
  tx: Db,
  { namespaceId, day, ...counts }: NamespaceDayRow,
): Promise<void> {
  await tx
    .insertInto('namespaceDays')
    .values({ namespaceId, day, ...counts })
    .onConflict((conflict) =>
      conflict.columns(['namespaceId', 'day']).doUpdateSet((is) => ({
        pushes: is('namespaceDays.pushes', '+', counts.pushes),
        fetches: is('namespaceDays.fetches', '+', counts.fetches),
        receivedBytes: is('namespaceDays.receivedBytes', '+', counts.receivedBytes),
        sentBytes: is('namespaceDays.sentBytes', '+', counts.sentBytes),
        runMs: is('namespaceDays.runMs', '+', counts.runMs),
      })),
    )
    .execute()
}

/** The days of a namespace from one day to another, newest first. */
export function listDays(
  db: Db,
  namespaceId: string,
  { from, to }: { from: string; to: string },
): Promise<NamespaceDayRow[]> {
  return db
    .selectFrom('namespaceDays')
    .selectAll()
    .where('namespaceId', '=', namespaceId)
    .where('day', '>=', from)
    .where('day', '<=', to)
    .orderBy('day', 'desc')
    .execute()
}

export async function deleteDaysBefore(db: Db, day: string): Promise<void> {
  await db.deleteFrom('namespaceDays').where('day', '<', day).execute()
}
