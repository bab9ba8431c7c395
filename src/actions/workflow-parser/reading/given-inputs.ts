import type { Json } from '#base/json.ts'
import { listed, quoted, suggest, unknownInput } from '../source/fault-list.ts'
import type { CallInput, Input } from '../workflow.ts'

const maxCharacters = 65_535

export type InputValue = string | number | boolean

/** A fault of an input that was passed, or is missing. */
type InputFault = { input: string; message: string }

/**
 * Checks the inputs of a dispatch and adds defaults. As on GitHub, booleans and numbers may be strings, and a missing
 * input without a default is false, 0, '' or the first option.
 */
export function readInputs(
  inputs: Record<string, Input>,
  given: Record<string, unknown>,
): { values: Record<string, InputValue> } | { faults: InputFault[] } {
  const faults: InputFault[] = []
  const names = Object.keys(inputs)
  for (const name of Object.keys(given)) {
    if (Object.hasOwn(inputs, name)) continue
    const similar = suggest(name, names)
    const advice = similar ? ` Did you mean ${quoted(similar)}?` : ''
    faults.push({ input: name, message: unknownInput('workflow', name) + advice })
  }
  const values = Object.entries(inputs).map(([name, input]) => {
    const value = Object.hasOwn(given, name) ? given[name] : undefined
    const read = value === undefined ? absent(input) : readGiven(input, value)
    if (typeof read === 'object')
      faults.push({ input: name, message: `${quoted(name)} ${read.fault}` })
    return [name, read] as const
  })
  if (faults.length > 0) return { faults }
  // Inputs with faults have been reported.
  return { values: Object.fromEntries(values) as Record<string, InputValue> }
}

type Fault = { fault: string }

function absent(input: Input): InputValue | Fault {
  if (input.default !== undefined) return input.default
  if (input.required) return { fault: 'is required.' }
  if (input.type === 'boolean') return false
  if (input.type === 'number') return 0
  return input.options[0] ?? ''
}

function readGiven({ type, options, required }: Input, value: unknown): InputValue | Fault {
  if (type === 'boolean') {
    if (value === true || value === 'true') return true
    if (value === false || value === 'false') return false
    return { fault: 'must be true or false.' }
  }
  if (type === 'number') {
    const isNumeric = typeof value === 'string' && /^-?\d+(\.\d+)?([eE][-+]?\d+)?$/.test(value)
    const number = typeof value === 'number' || isNumeric ? Number(value) : Number.NaN
    return Number.isFinite(number) ? number : { fault: 'must be a number.' }
  }
  if (typeof value !== 'string') return { fault: 'must be a string.' }
  if (type === 'choice' && !options.includes(value)) {
    return { fault: `must be one of ${listed(options.map(quoted))}.` }
  }
  if (required && value === '') return { fault: 'is required.' }
  const isTooLong = value.length > maxCharacters
  return isTooLong ? { fault: `is longer than ${maxCharacters} characters.` } : value
}

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
