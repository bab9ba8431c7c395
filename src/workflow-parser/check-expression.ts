import { functionsAt, type Position, positions } from './expression-positions.ts'
import { type ExpressionRefusal, refusals } from './expression-refusals.ts'
import { MalformedExpressionError, parseExpression } from './parse-expression.ts'
import { conditionOf, placeIn, splitTemplate } from './template-parts.ts'
import type { Fault, Template } from './workflow.ts'

/** The maximum faults reported for one text; a text may have 100,000 expressions. */
const maxFaults = 20

/** Checks the expressions of a text: syntax, unknown names, and names that are not available at the position. */
export function checkTemplate(template: Template, position: Position): Fault[] {
  const faults: Fault[] = []
  for (const part of splitTemplate(template.text)) {
    if (faults.length === maxFaults) break
    if (part.kind === 'unclosed') faults.push(toFault(template, part.offset, refusals.unclosed()))
    if (part.kind === 'expression') faults.push(...checkPart(template, part, position))
  }
  return faults
}

/** Checks an `if`, where `${{ }}` is optional. An empty one is no condition. */
export function checkCondition(template: Template, position: Position): Fault[] {
  const condition = conditionOf(template.text)
  if (condition.kind === 'none') return []
  if (condition.kind === 'expression') return checkPart(template, condition, position)
  const refusal = condition.kind === 'unclosed' ? refusals.unclosed() : refusals.surrounded()
  return [toFault(template, condition.offset, refusal)]
}

function checkPart(
  template: Template,
  { text, offset }: { text: string; offset: number },
  position: Position,
): Fault[] {
  const here = positions[position]
  try {
    const contexts: readonly string[] = here.contexts
    const functions = functionsAt(here).map((name) => name.toLowerCase())
    const { uses } = parseExpression(text, here.functions)
    return uses
      .filter(({ kind, name }) => {
        const known = kind === 'context' ? contexts : functions
        return !known.includes(name.toLowerCase())
      })
      .slice(0, 1)
      .map((use) => toFault(template, offset + use.offset, refusals.misplaced(use, position)))
  } catch (fault) {
    if (!(fault instanceof MalformedExpressionError)) throw fault
    return [toFault(template, offset + fault.offset, fault)]
  }
}

function toFault(
  template: Template,
  offset: number,
  { message, instead }: ExpressionRefusal,
): Fault {
  return { ...placeIn(template, offset), message, instead }
}
