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
  const names = Object.keys(given)
  return Object.fromEntries(
    Object.entries(action.inputs).map(([name, input]) => {
      const key = names.find((one) => one.toLowerCase() === name.toLowerCase())
      if (key !== undefined) return [name, given[key] ?? '']
      return [name, input.default ? evaluateText(input.default, scope) : '']
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
