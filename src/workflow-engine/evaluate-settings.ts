import { evaluateText, evaluateValue } from '../workflow-parser/evaluate.ts'
import type { Scope } from '../workflow-parser/scope.ts'
import type { Environment, Template } from '../workflow-parser/workflow.ts'
import type { PlanLimits } from './plan.ts'

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
  return Object.fromEntries(
    Object.entries(env).map(([name, template]) => [name, evaluateText(template, scope)]),
  )
}

function at({ position }: Template): string {
  return `${position.file}:${position.line}:${position.column}`
}
