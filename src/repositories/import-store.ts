import type { Db, ImportRow } from '#database/schema.ts'

export async function insertImport(db: Db, row: ImportRow): Promise<void> {
  await db.insertInto('imports').values(row).execute()
}

/** The running or failed import of a repository. */
export function findImport(db: Db, repositoryId: string): Promise<ImportRow | undefined> {
  return db
    .selectFrom('imports')
    .selectAll()
    .where('repositoryId', '=', repositoryId)
    .executeTakeFirst()
}

/** The repository ids of all imports, running and failed. */
export async function listImportIds(db: Db): Promise<string[]> {
  const rows = await db.selectFrom('imports').select('repositoryId').execute()
  return rows.map(({ repositoryId }) => repositoryId)
}

/** The last failed import of an exact name. */
export function findFailedImport(db: Db, name: string): Promise<ImportRow | undefined> {
  return db
    .selectFrom('imports')
    .selectAll()
    .where('nameKey', '=', name.toLowerCase())
    .where('name', '=', name)
    .where('endedAt', 'is not', null)
    .orderBy('repositoryId', 'desc')
    .executeTakeFirst()
}

/** Imports without a recorded end, oldest first. */
export function listRunningImports(db: Db): Promise<ImportRow[]> {
  return db
    .selectFrom('imports')
    .selectAll()
    .where('endedAt', 'is', null)
    .orderBy('repositoryId')
    .execute()
}

/** Records the progress of an import; false when it was cancelled. */
export async function updateProgress(
  db: Db,
  repositoryId: string,
  { phase, percent }: { phase: string; percent: number },
): Promise<boolean> {
  const row = await db
    .updateTable('imports')
    .set({ phase, progress: percent })
    .where('repositoryId', '=', repositoryId)
    .where('endedAt', 'is', null)
    .returning('repositoryId')
    .executeTakeFirst()
  return row !== undefined
}

/** Records why an import has ended, unless it had ended before. */
export async function markFailed(
  db: Db,
  repositoryId: string,
  { code, detail, now }: { code: string; detail: string; now: number },
): Promise<void> {
  await db
    .updateTable('imports')
    .set({ faultCode: code, faultDetail: detail, endedAt: now })
    .where('repositoryId', '=', repositoryId)
    .where('endedAt', 'is', null)
    .execute()
}

export async function deleteImport(db: Db, repositoryId: string): Promise<void> {
  await db.deleteFrom('imports').where('repositoryId', '=', repositoryId).execute()
}

/** Deletes the failed imports of a name, by any user: the name is now taken, or the import is retried. */
export async function deleteFailedImports(db: Db, name: string): Promise<void> {
  await db
    .deleteFrom('imports')
    .where('nameKey', '=', name.toLowerCase())
    .where('endedAt', 'is not', null)
    .execute()
}

/** Deletes the imports that failed before a time. */
export async function deleteImportsEndedBefore(db: Db, time: number): Promise<void> {
  await db.deleteFrom('imports').where('endedAt', '<', time).execute()
}
