import { type FaultList, quoted } from '../source/fault-list.ts'
import { type Field, type Fields, isNull, openFields, openUnique } from '../source/fields.ts'
import type { SourceNode } from '../source/source-text.ts'
import type { Action, ActionHook, ActionProgram, Template } from '../workflow.ts'
import { readSteps } from './read-steps.ts'
import { unsupportedInAction } from './unsupported-keys.ts'
import { readBoolean, readCondition, readTemplate, readText } from './values.ts'

const shape = {
  name: 'an action',
  keys: ['name', 'description', 'author', 'inputs', 'outputs', 'runs', 'branding'] as const,
  unsupported: unsupportedInAction,
}

const runsShape = {
  name: '"runs"',
  keys: ['using', 'steps', 'main', 'pre', 'pre-if', 'post', 'post-if'] as const,
}

const inputShape = {
  name: 'an input',
  keys: ['description', 'required', 'default', 'deprecationMessage'] as const,
  unsupported: {
    type: ['Inputs of actions are strings.', 'Remove "type".'],
  } as const,
}

const outputShape = { name: 'an output', keys: ['description', 'value'] as const }

/** Reads the action of an action.yml; complete only if there are no faults. */
export function readAction(path: string, root: SourceNode, faults: FaultList): Action | undefined {
  const fields = openFields(
    { label: 'The file', node: root, keyPosition: root.position },
    shape,
    faults,
  )
  if (!fields) return undefined
  const folder = path.split('/').slice(0, -1).join('/')
  const runs = fields.get('runs')
  if (!runs) {
    const instead = 'Write "runs:" with "using: composite" and "steps".'
    faults.add(root.position, 'The action has no "runs".', instead)
  }
  const { result, unsupported } = faults.collect(() => (runs ? readRuns(runs, faults) : nothing))
  const { steps, program } = result
  return {
    path: folder,
    name: readText(fields.get('name'), faults, 200) ?? folder,
    inputs: readInputs(fields.get('inputs'), faults),
    outputs: program ? {} : readOutputs(fields.get('outputs'), faults),
    steps,
    program,
    unsupported,
  }
}

type Runs = Pick<Action, 'steps' | 'program'>

const nothing: Runs = { steps: [], program: undefined }
const composite = 'Write "using: composite" and the commands as "run" steps.'

function isDocker(node: SourceNode): boolean {
  return node.kind === 'scalar' && node.value === 'docker'
}

function readRuns(field: Field, faults: FaultList): Runs {
  const entries = field.node.kind === 'map' ? field.node.entries : []
  const docker = entries.find(({ key, value }) => key === 'using' && isDocker(value))
  if (docker) {
    const message = 'Actions that use "docker" are not supported.'
    faults.unsupported(docker.value.position, message, composite)
    return nothing
  }
  const fields = openFields(field, runsShape, faults)
  if (!fields) return nothing
  const using = fields.get('using')
  const kind = readText(using, faults)
  if (!using) {
    const instead = 'Add "using: composite", or "using: node24" with "main".'
    faults.add(field.keyPosition, '"runs" has no "using".', instead)
  } else if (kind !== undefined && isNodeVersion(kind)) {
    return { steps: [], program: readProgram(kind, field, fields, faults) }
  } else if (kind !== undefined && kind !== 'composite') {
    const message = `Actions that use ${quoted(kind)} are not supported.`
    faults.add(using.node.position, message, composite)
    return nothing
  }
  rejectProgramKeys(fields, faults)
  const steps = fields.get('steps')
  if (steps) return { steps: readSteps(steps, 'action', faults), program: undefined }
  faults.add(field.keyPosition, '"runs" has no steps.', 'Write "steps:" in it.')
  return nothing
}

function readInputs(field: Field | undefined, faults: FaultList): Action['inputs'] {
  if (!field) return {}
  const inputs = openUnique(field, faults, 'Write "name:" and "description" in it.')
  return Object.fromEntries(
    inputs.map((entry) => {
      const fields = isNull(entry.node) ? undefined : openFields(entry, inputShape, faults)
      const required = readBoolean(fields?.get('required'), faults) ?? false
      return [entry.name, { required, default: readDefault(fields?.get('default'), faults) }]
    }),
  )
}

function readDefault(field: Field | undefined, faults: FaultList): Template | undefined {
  return isNull(field?.node) ? undefined : readTemplate(field, 'action.input-default', faults)
}

function readOutputs(field: Field | undefined, faults: FaultList): Record<string, Template> {
  if (!field) return {}
  const outputs = openUnique(field, faults, 'Write "name:" and "value" in it.')
  return Object.fromEntries(
    outputs.flatMap((entry) => {
      const fields = openFields(entry, outputShape, faults)
      const value = readTemplate(fields?.get('value'), 'action.outputs', faults)
      if (fields && !fields.get('value')) {
        const instead = 'Write "value: ${{ steps.<id>.outputs.<name> }}".'
        faults.add(entry.keyPosition, `The output ${entry.label} has no value.`, instead)
      }
      return value ? [[entry.name, value] as const] : []
    }),
  )
}

type RunsKey = 'steps' | 'main' | 'pre' | 'pre-if' | 'post' | 'post-if'

/** Whether `using` names a version of Node.js. */
function isNodeVersion(using: string): boolean {
  return /^node(12|16|20|22|24)$/.test(using)
}

/** Reads the files of an action for Node.js; complete only if there are no faults. */
function readProgram(
  using: string,
  field: Field,
  fields: Fields<RunsKey>,
  faults: FaultList,
): ActionProgram | undefined {
  const steps = fields.get('steps')
  if (steps) {
    const instead = `Remove it, or write "using: composite" instead of ${quoted(using)}.`
    faults.add(steps.keyPosition, '"steps" belongs to a composite action.', instead)
  }
  const main = readFile(fields.get('main'), faults)
  if (!fields.get('main')) {
    const instead = 'Write "main:" with the path of a script in the folder of the action.'
    faults.add(field.keyPosition, '"runs" has no "main".', instead)
  }
  const pre = readHook(fields, 'pre', faults)
  const post = readHook(fields, 'post', faults)
  return main === undefined ? undefined : { using, main, pre, post }
}

/** Reports keys of `runs` that a composite action does not have. */
function rejectProgramKeys(fields: Fields<RunsKey>, faults: FaultList): void {
  for (const key of ['main', 'pre', 'pre-if', 'post', 'post-if'] as const) {
    const field = fields.get(key)
    if (!field) continue
    const message = `${field.label} belongs to an action for Node.js, not to a composite one.`
    faults.add(field.keyPosition, message, 'Write "using: node24", or remove it.')
  }
}

function readHook(
  fields: Fields<RunsKey>,
  key: 'pre' | 'post',
  faults: FaultList,
): ActionHook | undefined {
  const file = readFile(fields.get(key), faults)
  const field = fields.get(`${key}-if`)
  const condition = readCondition(field, 'action.hook-if', faults)
  if (field && !fields.get(key)) {
    const instead = `Write "${key}:" with the path of a script, or remove it.`
    faults.add(field.keyPosition, `${field.label} has no "${key}".`, instead)
  }
  return file === undefined ? undefined : { file, if: condition }
}

function readFile(field: Field | undefined, faults: FaultList): string | undefined {
  const path = readText(field, faults)
  if (!field || path === undefined) return undefined
  if (!path.startsWith('/') && !/\p{Cc}/u.test(path)) return path
  const instead = 'Write a path from the folder of the action: "dist/index.js".'
  return void faults.add(field.node.position, `${field.label} is not a relative path.`, instead)
}
