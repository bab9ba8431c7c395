import { checkNeeds, type JobNeeds } from './check-needs.ts'
import { checkPermissions } from './check-permissions.ts'
import type { FaultList } from './fault-list.ts'
import { type Field, kindOf, type NamedField, openFields } from './fields.ts'
import { openIdentified } from './identifiers.ts'
import { readDefaults } from './read-defaults.ts'
import { readSteps } from './read-steps.ts'
import { readStrategy } from './read-strategy.ts'
import { unsupportedInJob } from './unsupported-keys.ts'
import {
  readCondition,
  readEnvironment,
  readFlag,
  readPositive,
  readTemplate,
  readTemplates,
  readTexts,
  readTree,
} from './values.ts'
import type { Job, TemplateTree } from './workflow.ts'

const maxJobs = 64
const maxSteps = 100

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
    'steps',
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
    env: {},
    defaults: { shell: undefined, workingDirectory: undefined },
    outputs: {},
    strategy: { matrix: undefined, failFast: true, maxParallel: undefined },
    timeoutMinutes: undefined,
    continueOnError: false,
    steps: readSteps(steps, 'workflow', faults),
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
  const steps = fields.get('steps')
  if (!steps) {
    faults.add(entry.keyPosition, `The job ${entry.label} has no steps.`, 'Write "steps:" in it.')
  }
  checkPermissions(fields.get('permissions'), faults)
  const job: Job = {
    id: entry.name,
    name: readTemplate(fields.get('name'), 'job.name', faults),
    needs: [...new Set(needs.map(({ text }) => text))],
    if: readCondition(fields.get('if'), 'job.if', faults),
    runsOn: readRunsOn(fields.get('runs-on'), faults),
    env: readEnvironment(fields.get('env'), 'job.env', faults),
    defaults: readDefaults(fields.get('defaults'), faults),
    outputs: readOutputs(fields.get('outputs'), faults),
    strategy: readStrategy(fields.get('strategy'), faults),
    timeoutMinutes: readPositive(fields.get('timeout-minutes'), 'job.timeout-minutes', faults, {
      isWhole: false,
    }),
    continueOnError:
      readFlag(fields.get('continue-on-error'), 'job.continue-on-error', faults) ?? false,
    steps: steps ? readSteps(steps, 'workflow', faults) : [],
    position: entry.keyPosition,
  }
  return { job, needs }
}

function readOutputs(field: Field | undefined, faults: FaultList): Job['outputs'] {
  if (field) openIdentified(field, faults, 'Write "name: ${{ steps.<id>.outputs.<name> }}" lines.')
  return field?.node.kind === 'map' ? readTemplates(field, 'job.outputs', faults) : {}
}

function readRunsOn(field: Field | undefined, faults: FaultList): TemplateTree | undefined {
  if (!field) return undefined
  const { node } = field
  if (node.kind === 'map') {
    const instead = 'Write one label, or a list of labels.'
    return void faults.add(
      node.position,
      '"runs-on" is a mapping; runner groups are not supported.',
      instead,
    )
  }
  const items = node.kind === 'list' ? node.items : [node]
  for (const item of items) {
    if (item.kind === 'scalar' && typeof item.value === 'string' && item.value !== '') continue
    const message = `A label of "runs-on" is ${kindOf(item)}.`
    faults.add(item.position, message, 'Write a label, such as ubuntu-latest, or omit it.')
  }
  if (node.kind === 'list' && items.length === 0) {
    faults.add(node.position, '"runs-on" is an empty list.', 'Remove it.')
  }
  return readTree(node, 'job.runs-on', faults)
}

function checkNumberOfSteps(jobs: Job[], faults: FaultList): void {
  const steps = jobs.flatMap((job) => job.steps)
  const excess = steps[maxSteps]
  if (!excess) return
  const message = `The file has ${steps.length} steps; the maximum is ${maxSteps}.`
  faults.add(excess.position, message, `Split the file, or run several commands in one step.`)
}
