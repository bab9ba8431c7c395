import { createFaultList, type FaultList } from '../source/fault-list.ts'
import { type Field, type Fields, isSecretIdentifier, openFields } from '../source/fields.ts'
import { readSource } from '../source/read-source.ts'
import type { SourceNode } from '../source/source-text.ts'
import type { Concurrency, Fault, Job, Note, SourceFile, Workflow } from '../workflow.ts'
import { readAction } from './read-action.ts'
import { readJobs, shortJob } from './read-jobs.ts'
import { noTriggers, readTriggers } from './read-triggers.ts'
import { readDefaults, readNetwork, readPermissions } from './shared-keys.ts'
import { unsupportedInWorkflow } from './unsupported-keys.ts'
import { given, readEnvironment, readFlag, readTemplate, readText, readTexts } from './values.ts'

/** Parses a workflow file and lists its faults and notes; `workflow` is undefined if there are faults. */
export function parseWorkflow(file: SourceFile) {
  const { result: workflow, ...found } = parse(file, readWorkflow)
  return { workflow, ...found }
}

/** Parses the action.yml of an action in the same way. */
export function parseAction(file: SourceFile) {
  const { result: action, ...found } = parse(file, readAction)
  return { action, ...found }
}

/** Parses a file of either kind. */
export function parseFile(kind: 'workflow' | 'action', file: SourceFile) {
  return kind === 'workflow' ? parse(file, readWorkflow) : parse(file, readAction)
}

function parse<Result>(
  file: SourceFile,
  read: (path: string, root: SourceNode, faults: FaultList) => Result | undefined,
): { result: Result | undefined; faults: Fault[]; notes: Note[] } {
  const list = createFaultList(file)
  const root = readSource(file, list)
  const result = root && read(file.path, root, list)
  const faults = list.all()
  return { result: faults.length === 0 ? result : undefined, faults, notes: list.notes() }
}

const keys = [
  'name',
  'run-name',
  'on',
  'env',
  'defaults',
  'concurrency',
  'permissions',
  'secrets',
  'network',
  'jobs',
  'steps',
] as const

const shape = { name: 'a workflow', keys, unsupported: unsupportedInWorkflow }

/** Reads a workflow in one of its two forms; complete only if there are no faults. */
function readWorkflow(path: string, root: SourceNode, faults: FaultList): Workflow | undefined {
  const fields = openFields(
    { label: 'The file', node: root, keyPosition: root.position },
    shape,
    faults,
  )
  if (!fields) return undefined
  const on = fields.get('on')
  return {
    path,
    name: readText(given(fields.get('name')), faults, 200) ?? path,
    runName: readTemplate(given(fields.get('run-name')), 'run-name', faults),
    on: on ? readTriggers(on, faults) : noTriggers,
    env: readEnvironment(fields.get('env'), 'env', faults),
    defaults: readDefaults(fields.get('defaults'), faults),
    concurrency: readConcurrency(given(fields.get('concurrency')), faults),
    secrets: readSecrets(fields.get('secrets'), faults),
    permissions: readPermissions(fields.get('permissions'), faults),
    network: readNetwork(fields.get('network'), faults),
    jobs: addUnsupported(readEitherForm(fields, root, faults), faults),
  }
}

/** Reports why no job can run together with the other faults of a file, which hide it otherwise. */
function addUnsupported(jobs: Job[], faults: FaultList): Job[] {
  const isRefused = faults.count() > 0 && jobs.every(({ unsupported }) => unsupported.length > 0)
  if (isRefused) faults.addAll(jobs.flatMap(({ unsupported }) => unsupported))
  return jobs
}

function readEitherForm(
  fields: Fields<'jobs' | 'steps'>,
  root: SourceNode,
  faults: FaultList,
): Job[] {
  const jobs = fields.get('jobs')
  const steps = fields.get('steps')
  if (jobs && steps) {
    const instead = 'Move the steps into a job (jobs.<id>.steps).'
    faults.add(steps.keyPosition, 'A workflow has "steps" or "jobs", not both.', instead)
  }
  if (jobs) return readJobs(jobs, faults)
  if (steps) return [shortJob(steps, faults)]
  // A mistyped key has already been reported.
  if (faults.count() > 0) return []
  const instead = 'Write "steps:" with a list of "run" steps, or "jobs:".'
  faults.add(root.position, 'The workflow has no jobs or steps.', instead)
  return []
}

function readConcurrency(field: Field | undefined, faults: FaultList): Concurrency | undefined {
  if (!field) return undefined
  if (field.node.kind === 'scalar') {
    const group = readTemplate(field, 'concurrency', faults)
    return group && { group, cancelInProgress: false }
  }
  const fields = openFields(field, concurrencyShape, faults)
  if (!fields) return undefined
  const cancelInProgress =
    readFlag(fields.get('cancel-in-progress'), 'concurrency', faults) ?? false
  const group = readTemplate(fields.get('group'), 'concurrency', faults)
  if (group) return { group, cancelInProgress }
  if (!fields.get('group')) {
    faults.add(field.keyPosition, '"concurrency" has no group.', 'Write "group: a name".')
  }
  return undefined
}

const concurrencyShape = {
  name: '"concurrency"',
  keys: ['group', 'cancel-in-progress'] as const,
  unsupported: {
    queue: ['"queue" is not supported: a group queues at most one run.', 'Remove it.'],
  } as const,
}

function readSecrets(field: Field | undefined, faults: FaultList): Workflow['secrets'] {
  if (!field) return undefined
  if (field.node.kind === 'scalar' && field.node.value === 'inherit') return 'inherit'
  return readTexts(field, faults).map(({ text, field: item }) => {
    if (!isSecretIdentifier(text)) {
      const instead = 'Use letters, digits and underscores; start with a letter or an underscore.'
      faults.add(item.node.position, `${item.label} is not a valid secret name.`, instead)
    }
    return text
  })
}
