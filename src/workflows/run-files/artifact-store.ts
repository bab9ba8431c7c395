import type { ArtifactRow, Db } from '#database/schema.ts'
import { type MeasuredFiles, toMeasuredFiles } from './run-file-store.ts'

/** An artifact with the facts of its file. */
export type StoredArtifact = ArtifactRow & { size: number; sha256: string }

function artifactsWithFiles(db: Db) {
  return db
    .selectFrom('artifacts')
    .innerJoin('runFiles', 'runFiles.id', 'artifacts.id')
    .selectAll('artifacts')
    .select(['runFiles.size', 'runFiles.sha256'])
}

/** Inserts an artifact; false when its attempt has one of this name. */
export async function insertArtifact(tx: Db, artifact: ArtifactRow): Promise<boolean> {
  const row = await tx
    .insertInto('artifacts')
    .values(artifact)
    .onConflict((conflict) => conflict.columns(['runId', 'attempt', 'name']).doNothing())
    .returning('id')
    .executeTakeFirst()
  return row !== undefined
}

/** Lists the artifacts of a run, of all its attempts, oldest first. */
export function listArtifacts(db: Db, runId: string): Promise<StoredArtifact[]> {
  return artifactsWithFiles(db).where('runId', '=', runId).orderBy('artifacts.id').execute()
}

/** The size and number of all artifacts of a repository. */
export async function measureArtifacts(db: Db, repositoryId: string): Promise<MeasuredFiles> {
  const measured = await db
    .selectFrom('artifacts')
    .innerJoin('runFiles', 'runFiles.id', 'artifacts.id')
    .select((is) => [
      is.fn.countAll<number | string>().as('count'),
      is.fn.sum<number | string | null>('runFiles.size').as('sizeBytes'),
    ])
    .where('artifacts.repositoryId', '=', repositoryId)
    .executeTakeFirstOrThrow()
  return toMeasuredFiles(measured)
}

export async function deleteArtifact(tx: Db, id: string): Promise<boolean> {
  const row = await tx
    .deleteFrom('artifacts')
    .where('id', '=', id)
    .returning('id')
    .executeTakeFirst()
  return row !== undefined
}

/** Deletes the artifacts of an attempt that begins again; their files are then without reference. */
export async function deleteArtifactsOf(
  tx: Db,
  { runId, attempt }: Pick<ArtifactRow, 'runId' | 'attempt'>,
): Promise<void> {
  await tx
    .deleteFrom('artifacts')
    .where('runId', '=', runId)
    .where('attempt', '=', attempt)
    .execute()
}

/** Deletes artifacts whose time is over; their files are then without reference. */
export async function deleteExpiredArtifacts(db: Db, now: number): Promise<void> {
  await db.deleteFrom('artifacts').where('expiresAt', '<=', now).execute()
}
