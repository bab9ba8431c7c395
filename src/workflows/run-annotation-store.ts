import type { RunAnnotationRow } from '#database/run-annotation-schema.ts'
import type { Db } from '#database/schema.ts'

type OfAttempt = { runId: string; attempt: number }

export async function insertAnnotation(tx: Db, annotation: RunAnnotationRow): Promise<void> {
  await tx.insertInto('runAnnotations').values(annotation).execute()
}

/** Lists the annotations of an attempt, in order. */
export function listAnnotations(
  db: Db,
  { runId, attempt }: OfAttempt,
): Promise<RunAnnotationRow[]> {
  return db
    .selectFrom('runAnnotations')
    .selectAll()
    .where('runId', '=', runId)
    .where('attempt', '=', attempt)
    .orderBy('number')
    .execute()
}

/** Lists the annotations of the latest attempts of the newest runs of a commit, the newest run first. */
export function listAnnotationsOfCommit(
  db: Db,
  { repositoryId, commitId }: { repositoryId: string; commitId: string },
  limits: { runs: number; annotations: number },
) {
  return db
    .selectFrom((select) =>
      select
        .selectFrom('runs')
        .select(['id', 'attempt', 'number as runNumber', 'name as runName'])
        .where('repositoryId', '=', repositoryId)
        .where('commitId', '=', commitId)
        .orderBy('id', 'desc')
        .limit(limits.runs)
        .as('newest'),
    )
    .innerJoin('runAnnotations', (join) =>
      join
        .onRef('runAnnotations.runId', '=', 'newest.id')
        .onRef('runAnnotations.attempt', '=', 'newest.attempt'),
    )
    .selectAll('runAnnotations')
    .select(['newest.runNumber', 'newest.runName'])
    .orderBy('newest.id', 'desc')
    .orderBy('runAnnotations.number')
    .limit(limits.annotations)
    .execute()
}
