import type { SourcePosition, Template } from '../workflow.ts'

/** A part of a template; `offset` is its start in the text, for an expression after the `${{`. */
export type TemplatePart =
  | { kind: 'text'; text: string; offset: number }
  | { kind: 'expression'; text: string; offset: number }
  /** A `${{` without its `}}`; always the last. */
  | { kind: 'unclosed'; offset: number }

/** Splits a text into literals and expressions. As on GitHub, `}}` in a quoted text does not end an expression. */
export function splitTemplate(text: string): TemplatePart[] {
  const parts: TemplatePart[] = []
  let offset = 0
  while (offset < text.length) {
    const opening = text.indexOf('${{', offset)
    if (opening !== offset) {
      const literal = text.slice(offset, opening === -1 ? undefined : opening)
      parts.push({ kind: 'text', text: literal, offset })
    }
    if (opening === -1) return parts
    const start = opening + 3
    const end = findEnd(text, start)
    if (end === -1) return [...parts, { kind: 'unclosed', offset: opening }]
    parts.push({ kind: 'expression', text: text.slice(start, end), offset: start })
    offset = end + 2
  }
  return parts
}

/** A parsed `if`. */
export type ConditionPart =
  | Exclude<TemplatePart, { kind: 'text' }>
  /** Empty: no condition. */
  | { kind: 'none' }
  /** An expression with text around it, which GitHub treats as a text, and so as true. */
  | { kind: 'surrounded'; offset: number }

/** Reads an `if`, where `${{ }}` is optional and surrounding white space is ignored. */
export function conditionOf(text: string): ConditionPart {
  if (text.trim() === '') return { kind: 'none' }
  const parts = splitTemplate(text).filter(
    (part) => part.kind !== 'text' || part.text.trim() !== '',
  )
  const [first] = parts
  const last = parts.at(-1)
  if (last?.kind === 'unclosed') return last
  if (parts.length === 1 && first?.kind === 'expression') return first
  if (parts.length === 1) return { kind: 'expression', text, offset: 0 }
  return { kind: 'surrounded', offset: first?.offset ?? 0 }
}

/** The position of a character of a template in the file. Assumes that all lines start in the column of the first. */
export function positionIn({ text, position }: Template, offset: number): SourcePosition {
  const before = text.slice(0, offset)
  const lineStart = before.lastIndexOf('\n') + 1
  const lines = before.split('\n').length - 1
  return {
    file: position.file,
    line: position.line + lines,
    column: position.column + offset - lineStart,
  }
}

function findEnd(text: string, start: number): number {
  let isQuoted = false
  for (let index = start; index < text.length; index++) {
    if (text[index] === "'") isQuoted = !isQuoted
    else if (!isQuoted && text.startsWith('}}', index)) return index
  }
  return -1
}
