/** Why an expression cannot be evaluated, for users. Never contains values, which may be secret. */
export class EvaluationError extends Error {
  override readonly name = 'EvaluationError'
}

/** The longest text that an expression may give, and that it may read from JSON: characters. */
export const maxTextLength = 1_048_576

/** Roughly the bytes of a value's parts: an object of its own each. */
export const nodeCost = 128

/** A limit on the cost of the expressions of one text or tree. A unit is about a byte, or a character read. */
export type Allowance = {
  /** Starts the next expression. */
  renew: () => void
  /** Throws EvaluationError when the allowance is used up. */
  take: (cost: number) => void
}

/** Enough for anything that is meant, and little enough to end in a second and in 100 MB. */
const maxCostPerExpression = 8 * 1_048_576
const maxTotalCost = 4 * maxCostPerExpression

export function createAllowance(): Allowance {
  let totalLeft = maxTotalCost
  let left = 0
  return {
    renew: () => {
      left = Math.min(maxCostPerExpression, totalLeft)
    },
    take: (cost) => {
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
