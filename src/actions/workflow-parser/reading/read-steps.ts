import { isNeverTrue, type MatrixLabels } from '../expressions/never-true.ts'
import type { WorkflowKey } from '../expressions/workflow-keys.ts'
import type { FaultList } from '../source/fault-list.ts'
import {
  checkIdentifier,
  createUniqueness,
  type Field,
  type Fields,
  isNull,
  openFields,
  openList,
} from '../source/fields.ts'
import type { AnyStep, RunStep, Step } from '../workflow.ts'
import { readUses } from './read-uses.ts'
import { checkShell } from './shared-keys.ts'
import { unsupportedInStep } from './unsupported-keys.ts'
import {
  given,
  hasExpression,
  readCondition,
  readEnvironment,
  readFlag,
  readPositive,
  readTemplate,
  readText,
} from './values.ts'

/** The owner of steps. Steps of an action need a shell, and have other contexts. */
export type StepsOwner = 'workflow' | 'action'

const keys = [
  'name',
  'id',
  'if',
  'run',
  'shell',
  'working-directory',
  'uses',
  'with',
  'env',
  'timeout-minutes',
  'continue-on-error',
] as const

/** Keys of steps that GitHub runs concurrently, or that wait for such steps. */
const concurrentKeys = ['background', 'parallel', 'wait', 'wait-all', 'cancel'] as const

type StepKey = (typeof keys)[number] | (typeof concurrentKeys)[number]

const shape = {
  name: 'a step',
  keys: [...keys, ...concurrentKeys],
  unsupported: unsupportedInStep,
}

/** Reads the steps of a job or an action; `matrix` has the known labels of the jobs that run them. */
export function readSteps(
  field: Field,
  of: StepsOwner,
  faults: FaultList,
  matrix?: MatrixLabels,
): Step[] {
  const items = openList(field, faults, 'Write a list: "- run: a command".')
  if (items?.length === 0) {
    faults.add(field.keyPosition, 'There are no steps.', 'Write "- run: a command".')
  }
  const unique = createUniqueness(faults)
  return (items ?? []).flatMap((item) => {
    const before = faults.count()
    const fields = openFields({ ...item, label: 'A step' }, shape, faults)
    if (!fields) return []
    const newKey = concurrentKeys.map((key) => fields.get(key)).find((one) => one !== undefined)
    if (newKey) {
      const message = `Steps do not run concurrently: ${newKey.label} is not supported.`
      faults.unsupported(newKey.keyPosition, message, 'Write steps that run one after another.')
      return []
    }
    // After a fault for a mistyped key, a fault for an empty step would be noise.
    if (faults.count() > before && !fields.get('run') && !fields.get('uses')) return []
    const id = fields.get('id')
    if (id?.node.kind === 'scalar') unique.check(String(id.node.value), id.node.position)
    const common = { ...readCommon(fields, of, faults), position: item.node.position }
    const read = faults.collect(() => readStep(common, fields, of, faults))
    if (read.unsupported.length > 0 && isNeverTrue(common.if, matrix))
      return read.result ?? omittedStep(common, fields.get('uses'))
    for (const one of read.unsupported) faults.unsupported(one, one.message, one.instead)
    return read.result ?? []
  })
}

function omittedStep(common: AnyStep, uses: Field | undefined): Step {
  const action = uses?.node.kind === 'scalar' ? String(uses.node.value) : ''
  return { ...common, kind: 'omitted', action, why: 'its condition never holds here.' }
}

function readStep(
  common: AnyStep,
  fields: Fields<StepKey>,
  of: StepsOwner,
  faults: FaultList,
): Step | undefined {
  const run = fields.get('run')
  const uses = fields.get('uses')
  if (run && uses) {
    const instead = 'Write two steps, one after the other.'
    return void faults.add(uses.keyPosition, 'A step has "run" or "uses", not both.', instead)
  }
  if (run) {
    const script = readRun(run, fields, of, faults)
    return script && { ...common, ...script }
  }
  if (uses) {
    rejectBeside(fields, ['shell', 'working-directory'], 'uses', faults)
    const use = readUses(uses, fields.get('with'), workflowKeyOf('with', of), faults)
    if (!use) return undefined
    if (use.kind !== 'run') return { ...common, ...use }
    if (hasExpression(fields.get('env')?.node)) {
      const message = 'The "env" of this step cannot be an expression.'
      return void faults.unsupported(uses.node.position, message, 'Write "NAME: value" lines.')
    }
    return { ...common, ...use, name: common.name ?? use.name, env: { ...common.env, ...use.env } }
  }
  return void faults.add(
    common.position,
    'This step has neither "run" nor "uses".',
    'Write "run: a command".',
  )
}

function readCommon(fields: Fields<StepKey>, of: StepsOwner, faults: FaultList) {
  const at = <Key extends KeyWithExpressions>(key: Key) =>
    [fields.get(key), workflowKeyOf(key, of), faults] as const
  const ifKey = of === 'action' ? 'action.step.if' : 'step.if'
  return {
    id: readId(fields.get('id'), faults),
    name: readTemplate(given(fields.get('name')), workflowKeyOf('name', of), faults),
    if: readCondition(given(fields.get('if')), ifKey, faults),
    env: readEnvironment(...at('env')),
    timeoutMinutes: readPositive(...at('timeout-minutes'), { isComplete: false }),
    continueOnError: readFlag(...at('continue-on-error')) ?? false,
  }
}

const noRoot =
  'steps cannot become root, so "sudo" fails: leave it out, and let the administrator of the runner install what steps need.'

function readRun(
  run: Field,
  fields: Fields<StepKey>,
  of: StepsOwner,
  faults: FaultList,
): Pick<RunStep, 'kind' | 'run' | 'shell' | 'workingDirectory'> | undefined {
  rejectBeside(fields, ['with'], 'run', faults)
  const shell = fields.get('shell')
  checkShell(shell, faults)
  if (!shell && of === 'action') {
    faults.add(run.keyPosition, 'A "run" step of an action requires "shell".', 'Add "shell: bash".')
  }
  // An empty script succeeds, as on GitHub.
  const script = isNull(run.node)
    ? { text: '', position: run.node.position }
    : readTemplate(run, workflowKeyOf('run', of), faults)
  if (script && usesRoot(script.text)) faults.note(run.keyPosition, noRoot)
  const directory = given(fields.get('working-directory'))
  const rest = {
    shell: readTemplate(shell, workflowKeyOf('shell', of), faults),
    workingDirectory: readTemplate(directory, workflowKeyOf('working-directory', of), faults),
  }
  return script && { kind: 'run', run: script, ...rest }
}

function usesRoot(script: string): boolean {
  return script.split('\n').some((line) => /\bsudo /.test(line.split('#', 1).join()))
}

function readId(field: Field | undefined, faults: FaultList): string | undefined {
  const id = readText(field, faults)
  if (field && id !== undefined) checkIdentifier(id, field.node.position, faults)
  return id
}

function rejectBeside(
  fields: Fields<StepKey>,
  rejected: StepKey[],
  beside: StepKey,
  faults: FaultList,
): void {
  for (const key of rejected) {
    const field = fields.get(key)
    if (!field) continue
    const message = `${field.label} cannot be combined with "${beside}".`
    const instead = key === 'with' ? 'Write "env" to give the command values.' : 'Remove it.'
    faults.add(field.keyPosition, message, instead)
  }
}

/** Keys of a step with their own set of contexts; in an action, all keys share one. */
type KeyWithExpressions = {
  [Key in StepKey]: `step.${Key}` extends WorkflowKey ? Key : never
}[StepKey]

function workflowKeyOf(key: KeyWithExpressions, of: StepsOwner): WorkflowKey {
  return of === 'action' ? 'action.step' : `step.${key}`
}
