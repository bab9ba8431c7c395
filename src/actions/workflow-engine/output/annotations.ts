import type { Annotation } from '../plan.ts'

/** Annotations of each level that a step may have, as on GitHub. */
const maxPerLevel = 10
/** Annotations that a run may have. */
const maxPerRun = 200

export type AnnotationLimits = { left: number }

export function createAnnotationLimits(): AnnotationLimits {
  return { left: maxPerRun }
}

/** Counts the annotations of a step: whether it may have one more. */
export function createAnnotationCounter(
  ofRun: AnnotationLimits,
): (level: Annotation['level']) => boolean {
  const counts = { error: 0, warning: 0, notice: 0 }
  return (level) => {
    if (counts[level] >= maxPerLevel || ofRun.left <= 0) return false
    counts[level] += 1
    ofRun.left -= 1
    return true
  }
}

const pathMaxLength = 1000

/**
 * Creates an annotation from the properties of a workflow command, by names in lower case. A path that is not within the workspace is left out,
 * together with the position.
 */
export function toAnnotation(
  level: Annotation['level'],
  properties: Readonly<Record<string, string>>,
  message: string,
  workspace: string,
): Annotation {
  const file = toPath(properties.file ?? '', workspace)
  const line = file === '' ? null : toNumber(properties.line)
  const endLine = line === null ? null : (toNumber(properties.endline) ?? line)
  const column = line === null ? null : toNumber(properties.col)
  const endColumn = column === null || endLine !== line ? null : toNumber(properties.endcolumn)
  return {
    level,
    file,
    line,
    endLine: endLine !== null && line !== null ? Math.max(line, endLine) : null,
    column,
    endColumn: endColumn !== null && column !== null ? Math.max(column, endColumn) : null,
    title: properties.title ?? '',
    message,
  }
}

function toPath(file: string, workspace: string): string {
  const inside = file.startsWith(`${workspace}/`) ? file.slice(workspace.length + 1) : file
  const parts = inside.split('/').filter((part) => part !== '' && part !== '.')
  const isValid =
    !inside.startsWith('/') &&
    !parts.includes('..') &&
    !/\p{Cc}/u.test(inside) &&
    inside.length <= pathMaxLength
  return isValid ? parts.join('/') : ''
}

function toNumber(text: string | undefined): number | null {
  return /^[1-9]\d{0,8}$/.test(text ?? '') ? Number(text) : null
}
