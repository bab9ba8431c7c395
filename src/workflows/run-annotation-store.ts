import type { Annotation, RunEntry } from '#actions/workflow-engine/plan.ts'
import type { Db, RunAnnotationRow } from '#database/schema.ts'
import type { OfAttempt } from './run-job-store.ts'

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

type Place = Pick<RunAnnotationRow, 'runId' | 'attempt' | 'number'>

/** Translates a reported annotation into its row. */
export function toAnnotationRow(
  place: Place,
  entry: RunEntry & { kind: 'annotation' },
): RunAnnotationRow {
  const { kind: _, endLine, column: col, endColumn: endCol, ...same } = entry
  return { ...place, ...same, endLine, col, endCol }
}

/** Translates a row for the API. */
export function toShownAnnotation(row: RunAnnotationRow): Annotation & { step: number } {
  const { step, level, file, line, endLine, col, endCol, title, message } = row
  return { step, level, file, line, endLine, column: col, endColumn: endCol, title, message }
}
