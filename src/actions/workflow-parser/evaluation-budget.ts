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
