import { checkShell } from './check-shell.ts'
import type { Position } from './expression-positions.ts'
import type { FaultList } from './fault-list.ts'
import { type Field, type Fields, openFields, openList } from './fields.ts'
import { checkIdentifier, createUniqueness } from './identifiers.ts'
import { readUses } from './read-uses.ts'
import { refusedInStep } from './refused-keys.ts'
import {
  readCondition,
  readEnvironment,
  readFlag,
  readPositive,
  readTemplate,
  readText,
} from './values.ts'
import type { RunStep, Step } from './workflow.ts'

/** The owner of steps. Steps of an action need a shell, and have other contexts. */
export type StepsOf = 'workflow' | 'action'

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

type StepKey = (typeof keys)[number]

const shape = { name: 'a step', keys, refused: refusedInStep }

/** The steps of a job or an action. */
export function readSteps(field: Field, of: StepsOf, faults: FaultList): Step[] {
  const items = openList(field, faults, 'Write a list: "- run: a command".')
  if (items?.length === 0) {
    faults.add(field.keyPlace, 'There are no steps.', 'Write "- run: a command".')
  }
  const unique = createUniqueness(faults)
  return (items ?? []).flatMap((item) => {
    const before = faults.count()
    const fields = openFields({ ...item, label: 'A step' }, shape, faults)
    if (!fields) return []
    // After a fault for a mistyped key, a fault for an empty step would be noise.
    if (faults.count() > before && !fields.get('run') && !fields.get('uses')) return []
    const id = fields.get('id')
    if (id?.node.kind === 'scalar') unique.check(String(id.node.value), id.node.place)
    return readStep(item, fields, of, faults) ?? []
  })
}

function readStep(
  item: Field,
  fields: Fields<StepKey>,
  of: StepsOf,
  faults: FaultList,
): Step | undefined {
  const common = { ...readCommon(fields, of, faults), place: item.node.place }
  const run = fields.get('run')
  const uses = fields.get('uses')
  if (run && uses) {
    const instead = 'Write two steps, one after the other.'
    return void faults.add(uses.keyPlace, 'A step has "run" or "uses", not both.', instead)
  }
  if (run) {
    const script = readRun(run, fields, of, faults)
    return script && { ...common, ...script }
  }
  if (uses) {
    refuseBeside(fields, ['shell', 'working-directory'], 'uses', faults)
    const use = readUses(uses, fields.get('with'), positionOf('with', of), faults)
    return use && { ...common, ...use }
  }
  return void faults.add(
    item.node.place,
    'This step has neither "run" nor "uses".',
    'Write "run: a command".',
  )
}

function readCommon(fields: Fields<StepKey>, of: StepsOf, faults: FaultList) {
  const at = <Key extends PositionedKey>(key: Key) =>
    [fields.get(key), positionOf(key, of), faults] as const
  const ifPosition = of === 'action' ? 'action.step.if' : 'step.if'
  return {
    id: readId(fields.get('id'), faults),
    name: readTemplate(...at('name')),
    if: readCondition(fields.get('if'), ifPosition, faults),
    env: readEnvironment(...at('env')),
    timeoutMinutes: readPositive(...at('timeout-minutes'), { isWhole: false }),
    continueOnError: readFlag(...at('continue-on-error')) ?? false,
  }
}

function readRun(
  run: Field,
  fields: Fields<StepKey>,
  of: StepsOf,
  faults: FaultList,
): Pick<RunStep, 'kind' | 'run' | 'shell' | 'workingDirectory'> | undefined {
  refuseBeside(fields, ['with'], 'run', faults)
  const shell = fields.get('shell')
  checkShell(shell, faults)
  if (!shell && of === 'action') {
    faults.add(run.keyPlace, 'A "run" step of an action requires "shell".', 'Add "shell: bash".')
  }
  const script = readTemplate(run, positionOf('run', of), faults)
  if (script?.text.trim() === '') {
    faults.add(run.node.place, '"run" is empty.', 'Write a command, or remove the step.')
  }
  const directory = fields.get('working-directory')
  const rest = {
    shell: readTemplate(shell, positionOf('shell', of), faults),
    workingDirectory: readTemplate(directory, positionOf('working-directory', of), faults),
  }
  return script && { kind: 'run', run: script, ...rest }
}

function readId(field: Field | undefined, faults: FaultList): string | undefined {
  const id = readText(field, faults)
  if (field && id !== undefined) checkIdentifier(id, field.node.place, faults)
  return id
}

function refuseBeside(
  fields: Fields<StepKey>,
  refused: StepKey[],
  beside: StepKey,
  faults: FaultList,
): void {
  for (const key of refused) {
    const field = fields.get(key)
    if (!field) continue
    const message = `${field.label} cannot be combined with "${beside}".`
    const instead = key === 'with' ? 'Write "env" to give the command values.' : 'Remove it.'
    faults.add(field.keyPlace, message, instead)
  }
}

/** Keys whose expressions have a separate position; in an action, all steps share one. */
type PositionedKey = {
  [Key in StepKey]: `step.${Key}` extends Position ? Key : never
}[StepKey]

function positionOf(key: PositionedKey, of: StepsOf): Position {
  return of === 'action' ? 'action.step' : `step.${key}`
}
