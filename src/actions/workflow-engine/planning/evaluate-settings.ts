import type { Json } from '#base/json.ts'
import { evaluateText, evaluateValue } from '../../workflow-parser/expressions/evaluate.ts'
import type { Scope } from '../../workflow-parser/expressions/scope.ts'
import type { Action, Environment, Template } from '../../workflow-parser/workflow.ts'
import type { PlanLimits } from '../plan.ts'
import type { RunState } from '../run-state.ts'

/** A setting whose expression has a value of the wrong type. */
class SettingError extends Error {
  override readonly name = 'SettingError'
}

export function evaluateBoolean(setting: Template | boolean, scope: Scope): boolean {
  if (typeof setting === 'boolean') return setting
  const value = evaluateValue(setting, scope)
  if (typeof value === 'boolean') return value
  if (value === 'true' || value === 'false' || value === '') return value === 'true'
  throw new SettingError(`${at(setting)}: the value of the expression is neither true nor false.`)
}

/** Evaluates a positive number; undefined when it is not set. */
export function evaluateNumber(
  setting: Template | number | undefined,
  scope: Scope,
): number | undefined {
  if (setting === undefined || typeof setting === 'number') return setting
  const value = evaluateValue(setting, scope)
  if (value === '' || value === null) return undefined
  const number = Number(value)
  if (number > 0 && Number.isFinite(number)) return number
  throw new SettingError(`${at(setting)}: the value of the expression is not a number above 0.`)
}

const minuteMs = 60_000

/** Evaluates the time limit of a step. */
export function evaluateTimeout(
  minutes: Template | number | undefined,
  scope: Scope,
  { stepTimeoutMs }: PlanLimits,
): number {
  const ownMinutes = evaluateNumber(minutes, scope) ?? Number.POSITIVE_INFINITY
  return Math.min(ownMinutes * minuteMs, stepTimeoutMs)
}

export function evaluateEnvironment(env: Environment, scope: Scope): Record<string, string> {
  if (isExpression(env)) return evaluateMapping(env, scope)
  return Object.fromEntries(
    Object.entries(env).map(([name, template]) => [name, evaluateText(template, scope)]),
  )
}

/** Whether an expression gives all texts: of a mapping, each value is a template. */
function isExpression(env: Environment): env is Template {
  return typeof env.text === 'string'
}

function evaluateMapping(template: Template, scope: Scope): Record<string, string> {
  const value = evaluateValue(template, scope)
  if (value === null || value === '') return {}
  const entries = typeof value === 'object' && !Array.isArray(value) ? Object.entries(value) : []
  const isNamed = ([name, text]: [string, Json]) =>
    /^[^=\p{Cc}]+$/u.test(name) && (text === null || typeof text !== 'object')
  if (
    entries.length > 0 ? entries.every(isNamed) : typeof value === 'object' && !Array.isArray(value)
  )
    return Object.fromEntries(entries.map(([name, text]) => [name, String(text ?? '')]))
  throw new SettingError(
    `${at(template)}: the value of the expression is not an object of names and texts.`,
  )
}

function at({ position }: Template): string {
  return `${position.file}:${position.line}:${position.column}`
}

/** Bytes of all outputs as JSON: those of a job must fit into one report. */
const outputsMaxBytes = 256 * 1024

type Options = {
  /** Whose outputs they are, and its name in the log. */
  kind: 'job' | 'workflow'
  name: string
  outputs: Record<string, Template>
  scope: Scope
}

/** Evaluates outputs. Those that contain a secret are left out, which the log says. Throws when they are too large. */
export async function evaluateOutputs(
  { masker, emit }: Pick<RunState, 'masker' | 'emit'>,
  { kind, name, outputs, scope }: Options,
): Promise<Record<string, string>> {
  const values: Record<string, string> = {}
  for (const [id, template] of Object.entries(outputs)) {
    const value = evaluateText(template, scope)
    if (!masker.finds(value)) {
      values[id] = value
      continue
    }
    const text = `${name}: the output ${id} is omitted because it contains a secret.\n`
    await emit({ kind: 'output', step: null, text })
  }
  if (Buffer.byteLength(JSON.stringify(values)) > outputsMaxBytes) {
    throw new Error(`The outputs of the ${kind} exceed ${outputsMaxBytes} bytes; pass on less.`)
  }
  return values
}

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
