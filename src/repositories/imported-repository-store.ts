import type { Db } from '#database/schema.ts'

/** When repositories were imported, by their ids; without those that were created empty. */
export async function listImportTimes(db: Db, ids: string[]): Promise<Map<string, number>> {
  if (ids.length === 0) return new Map()
  const rows = await db
    .selectFrom('repositories')
    .select(['id', 'importedAt'])
    .where('id', 'in', ids)
    .where('importedAt', 'is not', null)
    .execute()
  return new Map(
    rows.flatMap(({ id, importedAt }) => (importedAt === null ? [] : [[id, importedAt]])),
  )
}
