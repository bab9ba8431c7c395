import { evaluateText } from '../workflow-parser/evaluate.ts'
import type { Scope } from '../workflow-parser/scope.ts'
import type { Action } from '../workflow-parser/workflow.ts'

/**
 * The declared inputs of an action. One that is not given has its default, or is empty: like GitHub, this does not
 * enforce `required`.
 */
export function actionInputs(
  action: Action,
  given: Record<string, string>,
  scope: Scope,
): Record<string, string> {
  // Of several names that differ in case, the first one counts.
  const values = new Map(
    Object.entries(given)
      .reverse()
      .map(([name, value]) => [name.toLowerCase(), value]),
  )
  return Object.fromEntries(
    Object.entries(action.inputs).map(([name, input]) => {
      const byDefault = () => (input.default ? evaluateText(input.default, scope) : '')
      return [name, values.get(name.toLowerCase()) ?? byDefault()]
    }),
  )
}

/** The variables by which the programs of an action read its inputs. */
export function inputVariables(inputs: Record<string, string>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(inputs).map(([name, value]) => [
      `INPUT_${name.replaceAll(' ', '_').toUpperCase()}`,
      value,
    ]),
  )
}
