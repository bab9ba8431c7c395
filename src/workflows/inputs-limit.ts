import type { InputValue } from '#actions/workflow-parser/dispatch-inputs.ts'

// As on GitHub.
const inputsMaxLength = 65_535

/** A sentence about the inputs of a run when they are too long; undefined when they are not. */
export function inputsFault(inputs: Record<string, InputValue>): string | undefined {
  if (JSON.stringify(inputs).length <= inputsMaxLength) return undefined
  return `The inputs must have at most ${inputsMaxLength} characters in total.`
}
