import { type FaultList, listed, quoted } from '../source/fault-list.ts'
import {
  checkNumberOfEntries,
  type Field,
  type FieldMessage,
  isNull,
  type NamedField,
  openFields,
  openNamed,
  openUnique,
} from '../source/fields.ts'
import type { CallInput, CallInterface, Template, TemplateTree, WorkflowCall } from '../workflow.ts'
import { githubFolder, workflowsFolder } from '../workflow-folders.ts'
import {
  readBoolean,
  readExpression,
  readTemplate,
  readTemplates,
  readTemplateTree,
  readText,
} from './values.ts'

const types = ['string', 'boolean', 'number'] as const

/** Inputs, outputs or secrets of a workflow that is called, and those that a call passes. */
const maxCallEntries = 100

const shape = { name: '"workflow_call"', keys: ['inputs', 'outputs', 'secrets'] as const }

const inputShape = {
  name: 'an input',
  keys: ['type', 'description', 'required', 'default', 'deprecationMessage'] as const,
  unsupported: {
    options: ['Inputs of "workflow_call" have no options.', 'Remove "options".'],
  } as const,
}
const outputShape = { name: 'an output', keys: ['description', 'value'] as const }
const secretShape = { name: 'a secret', keys: ['description', 'required'] as const }

/** Reads `on.workflow_call`. */
export function readWorkflowCall(field: Field | undefined, faults: FaultList): CallInterface {
  const fields = field && openFields(field, shape, faults)
  return {
    inputs: readEach(fields?.get('inputs'), faults, readInput),
    outputs: readEach(fields?.get('outputs'), faults, readOutput),
    secrets: readEach(fields?.get('secrets'), faults, readSecret),
  }
}

function readEach<T>(
  field: Field | undefined,
  faults: FaultList,
  read: (entry: NamedField, faults: FaultList) => T,
): Record<string, T> {
  if (!field || isNull(field.node)) return {}
  checkNumberOfEntries(field, maxCallEntries, faults)
  const entries = openUnique(field, faults, 'Write "name:" and its keys.')
  return Object.fromEntries(entries.map((entry) => [entry.name, read(entry, faults)]))
}

function readInput(entry: NamedField, faults: FaultList): CallInput {
  const fields = isNull(entry.node) ? undefined : openFields(entry, inputShape, faults)
  const named = fields?.get('type')
  const name = readText(named, faults)
  const type = types.find((one) => one === name)
  if (!type && (named === undefined || name !== undefined)) {
    const message = named
      ? `${quoted(name ?? '')} is not a valid input type of "workflow_call".`
      : `The input ${entry.label} has no "type".`
    faults.add(named?.node.position ?? entry.keyPosition, message, `Use ${listed(types)}.`)
  }
  return {
    type: type ?? 'string',
    required: readBoolean(fields?.get('required'), faults) ?? false,
    default: readDefault(fields?.get('default'), type ?? 'string', faults),
  }
}

function readDefault(
  field: Field | undefined,
  type: CallInput['type'],
  faults: FaultList,
): CallInput['default'] {
  if (!field || isNull(field.node)) return undefined
  if (type === 'string') return readTemplate(field, 'call.input-default', faults)
  const { node } = field
  const value = node.kind === 'scalar' ? node.value : undefined
  if ((typeof value === 'boolean' || typeof value === 'number') && typeof value === type) {
    return value
  }
  const instead = `Write a default that fits the type ${type}.`
  return readExpression(field, 'call.input-default', faults, instead)
}

function readOutput(entry: NamedField, faults: FaultList): Template {
  const fields = openFields(entry, outputShape, faults)
  const value = fields?.get('value')
  if (fields && !value) {
    const instead = 'Write "value: ${{ jobs.<id>.outputs.<name> }}".'
    faults.add(entry.keyPosition, `The output ${entry.label} has no value.`, instead)
  }
  const nothing = { text: '', position: entry.keyPosition }
  return readTemplate(value, 'call.output', faults) ?? nothing
}

function readSecret(entry: NamedField, faults: FaultList): { required: boolean } {
  const fields = isNull(entry.node) ? undefined : openFields(entry, secretShape, faults)
  return { required: readBoolean(fields?.get('required'), faults) ?? false }
}

/** The folders of workflows that can be called. */
const folders: string[] = [workflowsFolder, githubFolder]

type CallFields = { uses: Field; with: Field | undefined; secrets: Field | undefined }

/** Reads the `uses` of a job, which calls a workflow of the repository. */
export function readCalledWorkflow(
  { uses, with: inputs, secrets }: CallFields,
  faults: FaultList,
): WorkflowCall | undefined {
  const text = readText(uses, faults)
  if (text === undefined) return undefined
  if (isForeign(text)) {
    const message = `Workflows of other repositories, such as ${quoted(text)}, cannot be called.`
    const advice = `Copy the file into the repository. ${instead}`
    return void faults.unsupported(uses.node.position, message, advice)
  }
  const fault = faultOf(text)
  if (fault) return void faults.add(uses.node.position, ...fault)
  for (const field of [inputs, secrets]) {
    if (field) checkNumberOfEntries(field, maxCallEntries, faults)
  }
  return {
    path: text.slice('./'.length),
    with: readInputs(inputs, faults),
    secrets: readSecrets(secrets, faults),
    position: uses.node.position,
  }
}

const instead = `Write "uses: ./${folders[0]}/<file>" or "uses: ./${folders[1]}/<file>".`

function isForeign(uses: string): boolean {
  return /^[^./][^/]*\/[^/]+\/.*@/.test(uses)
}

function faultOf(uses: string): FieldMessage | undefined {
  const isInFolder = folders.some((folder) => uses.startsWith(`./${folder}/`))
  const name = uses.split('/').slice(3).join('/')
  if (isInFolder && /^[^/\\\p{Cc}]+\.ya?ml$/u.test(name)) return undefined
  return [`${quoted(uses)} is not a workflow of this repository.`, instead]
}

function readInputs(field: Field | undefined, faults: FaultList): Record<string, TemplateTree> {
  if (!field) return {}
  const entries = openNamed(field, faults, 'Write "name: value" lines.').flatMap((entry) => {
    const { name, node, label } = entry
    if (node.kind === 'scalar') return [[name, readTemplateTree(node, 'job.with', faults)] as const]
    const message = `The input ${label} is a ${node.kind === 'map' ? 'mapping' : 'list'}.`
    faults.add(node.position, message, 'Pass JSON as a string, and read it with fromJSON.')
    return []
  })
  return Object.fromEntries(entries)
}

function readSecrets(field: Field | undefined, faults: FaultList): WorkflowCall['secrets'] {
  if (field?.node.kind !== 'scalar') return readTemplates(field, 'job.secrets', faults)
  if (field.node.value === 'inherit') return 'inherit'
  const advice = 'Write "inherit", or "NAME: ${{ secrets.NAME }}" lines.'
  faults.add(field.node.position, '"secrets" is neither "inherit" nor a mapping.', advice)
  return {}
}
