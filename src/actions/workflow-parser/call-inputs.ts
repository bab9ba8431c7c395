import type { Json } from '#base/json.ts'
import { type InputFault, type InputValue, readInputs } from './dispatch-inputs.ts'
import type { CallInput, Input } from './workflow.ts'

/**
 * Checks the inputs that a job passes to a workflow, and adds defaults. As on GitHub, missing inputs without a default
 * are false, 0 or empty.
 */
export function readCallInputs(
  inputs: Record<string, Omit<CallInput, 'default'> & { default: InputValue | undefined }>,
  given: Record<string, Json>,
): { values: Record<string, InputValue> } | { faults: InputFault[] } {
  const declared = Object.entries(inputs).map(([name, input]): [string, Input] => {
    const required = input.required && !Object.hasOwn(given, name)
    return [name, { ...input, required, description: '', options: [] }]
  })
  const values = Object.entries(given).map(([name, value]) => {
    const type = Object.hasOwn(inputs, name) ? inputs[name]?.type : undefined
    return [name, toGiven(value, type)] as const
  })
  return readInputs(Object.fromEntries(declared), Object.fromEntries(values))
}

/** An expression without a value passes nothing: the input then has its default. */
function toGiven(value: Json, type: CallInput['type'] | undefined): Json | undefined {
  if (type === 'string') return isScalar(value) ? String(value ?? '') : value
  return value === null || value === '' ? undefined : value
}

function isScalar(value: Json): boolean {
  return value === null || typeof value !== 'object'
}
