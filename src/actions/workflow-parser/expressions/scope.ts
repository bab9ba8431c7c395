import type { Json } from '#base/json.ts'
import type { SourcePosition } from '../workflow.ts'

/** The scope in which an expression is evaluated. */
export type Scope = {
  /** Contexts by name, such as `github`. A missing one is null. */
  contexts: Record<string, Json>
  /** The values of `success()`, `failure()` and `cancelled()`. */
  status: { success: boolean; failure: boolean; cancelled: boolean }
  /** The SHA-256, in hex, over the matching files of the workspace; empty when none match. */
  hashFiles: (patterns: string[]) => string
  /** Limits the cost of all expressions that are evaluated with it; by default, of those of a text or tree. */
  budget?: EvaluationBudget
}

/** Why an expression cannot be evaluated, for users. Never contains values, which may be secret. */
export class EvaluationError extends Error {
  override readonly name = 'EvaluationError'
}

/** The longest text that an expression may give, and that it may read from JSON: characters. */
export const maxTextLength = 1_048_576

/** Roughly the bytes of one part of a value, which is an object of its own. */
export const nodeCost = 128

/** Limits the cost of the expressions of one text or tree. A unit is about one byte or character. */
export type EvaluationBudget = {
  /** Gives the next expression its own limit. */
  startExpression: () => void
  /** Throws EvaluationError when the budget is exhausted. */
  spend: (cost: number) => void
}

/** Enough for any legitimate expression; ends within a second and 100 MB. */
const maxCostPerExpression = 8 * 1_048_576
const maxTotalCost = 4 * maxCostPerExpression

export function createEvaluationBudget(): EvaluationBudget {
  let totalLeft = maxTotalCost
  let left = 0
  return {
    startExpression: () => {
      left = Math.min(maxCostPerExpression, totalLeft)
    },
    spend: (cost) => {
      left -= cost
      totalLeft -= cost
      if (left < 0) {
        throw new EvaluationError(
          'The expression processes too much data; do this in a step and use its output.',
        )
      }
    },
  }
}

/** Throws EvaluationError for a text that is too long to be a value. */
export function requireShort(length: number): void {
  if (length > maxTextLength) {
    throw new EvaluationError('The value of the expression is larger than 1 MiB.')
  }
}

/** An expression that cannot be evaluated, with its position. The message is for users and never contains a value. */
export class ExpressionError extends Error {
  override readonly name = 'ExpressionError'
  readonly position: SourcePosition

  constructor(position: SourcePosition, message: string, options?: ErrorOptions) {
    super(message, options)
    this.position = position
  }
}
