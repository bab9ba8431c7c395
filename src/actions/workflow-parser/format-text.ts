import { EvaluationError, requireShort } from './evaluation-budget.ts'

/** `format('{0} {{ }}', …)`. The library's version takes quadratic time and unbounded memory. */
export function formatText(pattern: string, values: string[]): string {
  const pieces: string[] = []
  let length = 0
  let end = 0
  for (const brace of pattern.matchAll(/\{\{|\}\}|\{(\d{1,5})\}|[{}]/g)) {
    const [written, index] = brace
    put(pattern.slice(end, brace.index))
    put(index === undefined ? toBrace(written) : valueAt(Number(index)))
    end = brace.index + written.length
  }
  put(pattern.slice(end))
  return pieces.join('')

  function put(piece: string): void {
    length += piece.length
    requireShort(length)
    pieces.push(piece)
  }

  function valueAt(index: number): string {
    const value = values[index]
    if (value !== undefined) return value
    throw new EvaluationError(
      `format refers to {${index}}, but has ${values.length} values, counted from {0}.`,
    )
  }
}

function toBrace(written: string): string {
  if (written.length === 2) return written.slice(1)
  throw new EvaluationError(
    'format got a string with a single brace; write {{ or }} for a brace, {0} for a value.',
  )
}
