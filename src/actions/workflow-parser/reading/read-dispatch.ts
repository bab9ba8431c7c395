import { type FaultList, listed, quoted } from '../source/fault-list.ts'
import { type Field, isNull, type NamedField, openFields, openUnique } from '../source/fields.ts'
import type { Input } from '../workflow.ts'
import { readInputs } from './given-inputs.ts'
import { readBoolean, readText, readTexts } from './values.ts'

const types = ['string', 'boolean', 'number', 'choice'] as const

const maxInputs = 25
const maxOptions = 100

const dispatchShape = { name: '"workflow_dispatch"', keys: ['inputs'] as const }

const inputShape = {
  name: 'an input',
  keys: ['type', 'description', 'required', 'default', 'options', 'deprecationMessage'] as const,
}

/** The inputs of `on.workflow_dispatch`. */
export function readDispatchInputs(
  field: Field | undefined,
  faults: FaultList,
): Record<string, Input> {
  const inputs = field && openFields(field, dispatchShape, faults)?.get('inputs')
  if (!inputs) return {}
  const entries = isNull(inputs.node)
    ? []
    : openUnique(inputs, faults, 'Write "name:" and "type" in it.')
  const excess = entries[maxInputs]
  if (excess) {
    const message = `There are ${entries.length} inputs; the maximum is ${maxInputs}.`
    faults.add(excess.keyPosition, message, 'Combine several values into one string.')
  }
  return Object.fromEntries(entries.map((entry) => [entry.name, readInput(entry, faults)]))
}

function readInput(entry: NamedField, faults: FaultList): Input {
  const fields = isNull(entry.node) ? undefined : openFields(entry, inputShape, faults)
  const type = readType(fields?.get('type'), faults)
  const optionsField = fields?.get('options')
  const input: Input = {
    type,
    description: readDescription(fields?.get('description'), faults),
    required: readBoolean(fields?.get('required'), faults) ?? false,
    default: undefined,
    options: optionsField ? readOptions(optionsField, type, faults) : [],
  }
  if (type === 'choice' && !optionsField) {
    const instead = 'Write "options:" with a list of strings.'
    faults.add(entry.keyPosition, `The input ${entry.label} has no options.`, instead)
  }
  return { ...input, default: readDefault(fields?.get('default'), input, faults) }
}

function readType(field: Field | undefined, faults: FaultList): Input['type'] {
  const name = readText(field, faults)
  const type = types.find((candidate) => candidate === name)
  // The name of an environment is a text.
  if (name === 'environment') return 'string'
  if (field && name !== undefined && !type) {
    const message = `${quoted(name)} is not a valid input type.`
    faults.add(field.node.position, message, `Use ${listed(types)}.`)
  }
  return type ?? 'string'
}

function readDescription(field: Field | undefined, faults: FaultList): string {
  const isEmpty = field?.node.kind === 'scalar' && (field.node.value ?? '') === ''
  return isEmpty ? '' : (readText(field, faults) ?? '')
}

function readOptions(field: Field, type: Input['type'], faults: FaultList): string[] {
  if (type !== 'choice') {
    const message = `"options" is not allowed for the type ${type}.`
    faults.add(field.keyPosition, message, 'Write "type: choice", or omit it.')
  }
  const options = readTexts(field, faults).map(({ text }) => text)
  if (options.length > 0 && options.length <= maxOptions) return options
  const message = `"options" has ${options.length} entries; 1 to ${maxOptions} are allowed.`
  faults.add(field.keyPosition, message, 'Write a list of strings.')
  return []
}

function readDefault(field: Field | undefined, input: Input, faults: FaultList): Input['default'] {
  const { node } = field ?? {}
  if (!field || node?.kind !== 'scalar') {
    if (field) faults.add(field.node.position, '"default" is not a scalar.', 'Write a string.')
    return undefined
  }
  if (node.value === null) return undefined
  const isText = input.type === 'string' || input.type === 'choice'
  const given = isText ? String(node.value) : node.value
  // An empty default of a required input counts as none.
  const read = readInputs({ default: { ...input, required: false } }, { default: given })
  if ('values' in read) return read.values.default
  for (const { message } of read.faults) {
    faults.add(node.position, message, `Write a default that fits the type ${input.type}.`)
  }
  return undefined
}
