/** Why an expression has no value, in a sentence for people. Never holds values: they may be secret. */
export class EvaluationError extends Error {
  override readonly name = 'EvaluationFault'
}

/** The longest text that an expression may give, and that it may read from JSON: characters. */
export const textMax = 1_048_576

/** Roughly the bytes of a value's parts: an object of its own each. */
export const nodeCost = 128

/** What the expressions of one text or tree may cost, each and together: about a byte, or a character looked at. */
export type Allowance = {
  /** The next expression begins. */
  renew: () => void
  /** Throws EvaluationFault when there is no more. */
  take: (cost: number) => void
}

/** Enough for anything that is meant, and little enough to end in a second and in 100 MB. */
const costMaxEach = 8 * 1_048_576
const costMaxTogether = 4 * costMaxEach

export function createAllowance(): Allowance {
  let together = costMaxTogether
  let left = 0
  return {
    renew: () => {
      left = Math.min(costMaxEach, together)
    },
    take: (cost) => {
      left -= cost
      together -= cost
      if (left < 0) {
        throw new EvaluationError(
          'The expression handles too much data; let a step do this work and use its output.',
        )
      }
    },
  }
}

/** Throws EvaluationFault for a text that is too long to be a value. */
export function requireShort(length: number): void {
  if (length > textMax) {
    throw new EvaluationError('The value of the expression is larger than 1 MiB.')
  }
}
