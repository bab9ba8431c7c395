import { type ExpressionMessage, expressionMessages } from './expression-messages.ts'
import { MalformedExpressionError, parseExpression } from './parse-expression.ts'
import { conditionOf, positionIn, splitTemplate } from './template-parts.ts'
import type { Fault, Template } from './workflow.ts'
import { availability, functionsAt, type WorkflowKey } from './workflow-keys.ts'

/** The maximum faults reported for one text; a text may have 100,000 expressions. */
const maxFaults = 20

/** Checks the expressions of a text: syntax, unknown names, and names that are not available under the key. */
export function checkTemplate(template: Template, workflowKey: WorkflowKey): Fault[] {
  const faults: Fault[] = []
  for (const part of splitTemplate(template.text)) {
    if (faults.length === maxFaults) break
    if (part.kind === 'unclosed')
      faults.push(toFault(template, part.offset, expressionMessages.unclosed()))
    if (part.kind === 'expression') faults.push(...checkPart(template, part, workflowKey))
  }
  return faults
}

/** Checks an `if`, where `${{ }}` is optional. An empty one is no condition. */
export function checkCondition(template: Template, workflowKey: WorkflowKey): Fault[] {
  const condition = conditionOf(template.text)
  if (condition.kind === 'none') return []
  if (condition.kind === 'expression') return checkPart(template, condition, workflowKey)
  const message =
    condition.kind === 'unclosed' ? expressionMessages.unclosed() : expressionMessages.surrounded()
  return [toFault(template, condition.offset, message)]
}

function checkPart(
  template: Template,
  { text, offset }: { text: string; offset: number },
  workflowKey: WorkflowKey,
): Fault[] {
  const here = availability[workflowKey]
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
      .map((use) =>
        toFault(template, offset + use.offset, expressionMessages.misplaced(use, workflowKey)),
      )
  } catch (fault) {
    if (!(fault instanceof MalformedExpressionError)) throw fault
    return [toFault(template, offset + fault.offset, fault)]
  }
}

function toFault(
  template: Template,
  offset: number,
  { message, instead }: ExpressionMessage,
): Fault {
  return { ...positionIn(template, offset), message, instead }
}
