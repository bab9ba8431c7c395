import type { MatrixLabels } from '../expressions/never-true.ts'
import { type FaultList, quoted, suggest } from '../source/fault-list.ts'
import {
  type Field,
  type Fields,
  isNull,
  type NamedField,
  openFields,
  openIdentified,
  openUnique,
} from '../source/fields.ts'
import type { Job, Template } from '../workflow.ts'
import { checkRunsOn, isForeignRunsOn, matrixLabelsOf, readRunsOn } from './read-runs-on.ts'
import { readSteps } from './read-steps.ts'
import { readStrategy } from './read-strategy.ts'
import { readCalledWorkflow } from './read-workflow-call.ts'
import { readDefaults, readNetwork, readPermissions } from './shared-keys.ts'
import { unsupportedInJob, unsupportedOfJob } from './unsupported-keys.ts'
import {
  given,
  hasExpression,
  readCondition,
  readEnvironment,
  readFlag,
  readPositive,
  readTemplate,
  readTemplates,
  readTexts,
} from './values.ts'

const maxJobs = 64
const maxSteps = 1000

type JobKey = (typeof shape.keys)[number]

const shape = {
  name: 'a job',
  keys: [
    'name',
    'needs',
    'if',
    'runs-on',
    'env',
    'defaults',
    'outputs',
    'strategy',
    'timeout-minutes',
    'continue-on-error',
    'permissions',
    'network',
    'steps',
    'uses',
    'with',
    'secrets',
    'concurrency',
    'environment',
    'container',
    'services',
    'snapshot',
  ] as const,
  unsupported: unsupportedInJob,
}

/** The jobs of GitHub's form. */
export function readJobs(field: Field, faults: FaultList): Job[] {
  const entries = openIdentified(field, faults, 'Write "jobs:", an id, and "steps".')
  if (field.node.kind === 'map' && entries.length === 0) {
    faults.add(field.keyPosition, 'There are no jobs.', 'Write an id, and "steps".')
  }
  const jobs = entries.flatMap((entry) => readJob(entry, faults) ?? [])
  const ids = entries.map(({ name }) => name)
  const excess = entries[maxJobs]
  if (excess) {
    const message = `The file has ${entries.length} jobs; the maximum is ${maxJobs}.`
    faults.add(excess.keyPosition, message, 'Use "strategy.matrix", or split the file.')
  }
  // Circles are looked for in time that grows with the third power of the number of jobs.
  if (!excess) checkNeeds(jobs, ids, faults)
  checkNumberOfSteps(
    jobs.map(({ job }) => job),
    faults,
  )
  return jobs.map(({ job }) => job)
}

/** The one job of the short form. */
export function shortJob(steps: Field, faults: FaultList): Job {
  const job: Job = {
    id: 'steps',
    name: undefined,
    needs: [],
    if: undefined,
    runsOn: undefined,
    container: undefined,
    env: {},
    defaults: { shell: undefined, workingDirectory: undefined },
    outputs: {},
    strategy: { matrix: undefined, failFast: true, maxParallel: undefined },
    network: undefined,
    timeoutMinutes: undefined,
    continueOnError: false,
    permissions: undefined,
    ...collectSteps(steps, undefined, faults),
    call: undefined,
    position: steps.keyPosition,
  }
  checkNumberOfSteps([job], faults)
  return job
}

function readJob(entry: NamedField, faults: FaultList): JobNeeds | undefined {
  const fields = openFields({ ...entry, label: `The job ${entry.label}` }, shape, faults)
  if (!fields) return undefined
  const needsField = fields.get('needs')
  const needs = needsField ? readTexts(needsField, faults) : []
  noteUnapplied(fields, faults)
  const { result, unsupported } = faults.collect(() => readParts(entry, fields, faults))
  const isSkipped = unsupported.length > 0
  const job: Job = {
    ...result,
    id: entry.name,
    needs: [...new Set(needs.map(({ text }) => text))],
    // Nothing of it runs, and only what runs counts for limits.
    ...(isSkipped && { steps: [], call: undefined }),
    unsupported,
    position: entry.keyPosition,
  }
  return { job, needs }
}

type Parts = Omit<Job, 'id' | 'needs' | 'unsupported' | 'position'>

function readParts(entry: NamedField, fields: Fields<JobKey>, faults: FaultList): Parts {
  const runsOn = readRunsOn(fields.get('runs-on'), faults)
  const strategy = readStrategy(fields.get('strategy'), faults)
  checkRunsOn({ runsOn, strategy }, faults)
  refuseUnsupported(fields, faults)
  const container = readContainer(fields.get('container'), faults)
  return {
    name: readTemplate(given(fields.get('name')), 'job.name', faults),
    if: readCondition(given(fields.get('if')), 'job.if', faults),
    runsOn,
    container,
    env: readEnvironment(fields.get('env'), 'job.env', faults),
    defaults: readDefaults(fields.get('defaults'), faults),
    outputs: readOutputs(fields.get('outputs'), faults),
    strategy,
    network: readNetwork(fields.get('network'), faults),
    timeoutMinutes: readPositive(fields.get('timeout-minutes'), 'job.timeout-minutes', faults, {
      isComplete: false,
    }),
    continueOnError:
      readFlag(fields.get('continue-on-error'), 'job.continue-on-error', faults) ?? false,
    permissions: readPermissions(fields.get('permissions'), faults),
    ...readWork(entry, fields, matrixLabelsOf({ runsOn, strategy }), faults),
  }
}

/** Reports keys that ask for something no runner has, unless they are empty. */
function refuseUnsupported(fields: Fields<JobKey>, faults: FaultList): void {
  for (const key of ['services', 'snapshot'] as const) {
    const field = fields.get(key)
    if (field && !isNull(field.node))
      faults.unsupported(field.keyPosition, ...unsupportedOfJob[key])
  }
}

/** Reads the image of a container, which must be an expression: it may be empty for some jobs of a matrix. */
function readContainer(field: Field | undefined, faults: FaultList): Template | undefined {
  if (!field || isNull(field.node)) return undefined
  const entries = field.node.kind === 'map' ? field.node.entries : []
  const image = entries.find(({ key }) => key === 'image')?.value ?? field.node
  if (image.kind !== 'scalar' || !hasExpression(image))
    return void faults.unsupported(field.keyPosition, ...unsupportedOfJob.container)
  faults.note(
    field.keyPosition,
    'Jobs for which "container" is not empty are skipped, and those that need them.',
  )
  return readTemplate({ ...field, node: image }, 'job.container', faults)
}

function collectSteps(steps: Field, matrix: MatrixLabels | undefined, faults: FaultList) {
  const { result, unsupported } = faults.collect(() => readSteps(steps, 'workflow', faults, matrix))
  return { steps: unsupported.length > 0 ? [] : result, unsupported }
}

/** Keys of a job with steps that a job with `uses` cannot have. */
const keysBesideSteps = [
  'runs-on',
  'env',
  'defaults',
  'outputs',
  'timeout-minutes',
  'continue-on-error',
  'environment',
  'steps',
] as const

/** Reads the steps of a job, or the workflow that it calls. */
function readWork(
  { label, keyPosition }: NamedField,
  fields: Fields<JobKey>,
  matrix: MatrixLabels | undefined,
  faults: FaultList,
): Pick<Job, 'steps' | 'call'> {
  const [uses, steps] = [fields.get('uses'), fields.get('steps')]
  const [inputs, secrets] = [fields.get('with'), fields.get('secrets')]
  if (uses) {
    for (const field of keysBesideSteps.map((key) => fields.get(key))) {
      const message = `A job with "uses" has no ${field?.label}.`
      if (field) faults.add(field.keyPosition, message, 'Write it in the workflow that is called.')
    }
    return { steps: [], call: readCalledWorkflow({ uses, with: inputs, secrets }, faults) }
  }
  if (inputs) {
    const message = '"with" belongs to a job or a step with "uses".'
    faults.add(inputs.keyPosition, message, 'Write it in the step, or use "env".')
  }
  if (secrets) {
    const message = '"secrets" belongs to a job with "uses".'
    const instead =
      'Write "secrets: [NAME, …]" at the top level of the file; steps get the secrets as variables and as ${{ secrets.NAME }}.'
    faults.add(secrets.keyPosition, message, instead)
  }
  if (!steps) faults.add(keyPosition, `The job ${label} has no steps.`, 'Write "steps:" in it.')
  // Nothing of a job that is skipped anyway is a fault.
  const isSkipped = isForeignRunsOn(fields.get('runs-on'))
  const read = steps && !isSkipped ? readSteps(steps, 'workflow', faults, matrix) : []
  return { steps: read, call: undefined }
}

function noteUnapplied(fields: Fields<JobKey>, faults: FaultList): void {
  const concurrency = fields.get('concurrency')
  const environment = fields.get('environment')
  if (concurrency) {
    const message =
      '"concurrency" of a job has no effect; at the top level of the file it applies to whole runs.'
    faults.note(concurrency.keyPosition, message)
  }
  if (environment) {
    const message =
      '"environment" has no effect: the job waits for no approval, and has the secrets of the repository.'
    faults.note(environment.keyPosition, message)
  }
}

function readOutputs(field: Field | undefined, faults: FaultList): Job['outputs'] {
  if (field) openUnique(field, faults, 'Write "name: ${{ steps.<id>.outputs.<name> }}" lines.')
  return field?.node.kind === 'map' ? readTemplates(field, 'job.outputs', faults) : {}
}

function checkNumberOfSteps(jobs: Job[], faults: FaultList): void {
  const steps = jobs.flatMap((job) => job.steps)
  const excess = steps[maxSteps]
  if (!excess) return
  const message = `The file has ${steps.length} steps; the maximum is ${maxSteps}.`
  faults.add(excess.position, message, `Split the file, or run several commands in one step.`)
}

/** A job and the positions of its needs. */
type JobNeeds = { job: Job; needs: { text: string; field: Field }[] }

/** Reports needs that name no job, the job itself, or a job that depends on it. */
function checkNeeds(jobs: JobNeeds[], ids: string[], faults: FaultList): void {
  for (const { job, needs } of jobs) {
    for (const { text, field } of needs) {
      const { position } = field.node
      if (text === job.id) {
        faults.add(position, `The job ${quoted(text)} needs itself.`, 'Remove it.')
      } else if (!ids.includes(text)) {
        const similar = suggest(text, ids)
        const instead = similar ? `Write ${quoted(similar)}.` : 'Name a job of this file.'
        faults.add(position, `There is no job ${quoted(text)}.`, instead)
      }
    }
  }
  const stuck = jobsInCycles(jobs)
  for (const { job, needs } of jobs) {
    if (!stuck.has(job.id)) continue
    const need = needs.find(({ text }) => text !== job.id && stuck.has(text))
    if (!need) continue
    const message = `The jobs ${quoted(job.id)} and ${quoted(need.text)} depend on each other.`
    faults.add(need.field.node.position, message, 'Remove one of these "needs" to break the cycle.')
    return
  }
}

/** Finds jobs that can never start because they depend on themselves. */
function jobsInCycles(jobs: JobNeeds[]): Set<string> {
  const left = new Map(jobs.map(({ job }) => [job.id, job.needs.filter((id) => id !== job.id)]))
  // Removes jobs without needs until none is left, then jobs that no other needs, so only cycles remain.
  const remove = (isFree: (id: string, needs: string[]) => boolean) => {
    for (;;) {
      const free = [...left].filter(([id, needs]) => isFree(id, needs)).map(([id]) => id)
      if (free.length === 0) return
      for (const id of free) left.delete(id)
    }
  }
  remove((_, needs) => !needs.some((id) => left.has(id)))
  remove((id) => ![...left.values()].some((needs) => needs.includes(id)))
  return new Set(left.keys())
}
