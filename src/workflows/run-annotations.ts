import type { Annotation, RunEntry } from '#actions/workflow-engine/plan.ts'
import type { RunAnnotationRow } from '#database/run-annotation-schema.ts'

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
