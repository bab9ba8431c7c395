import { maskAndShorten } from '../../secret-masking/mask-and-shorten.ts'
import type { Masker } from '../../secret-masking/masker.ts'
import { evaluateText } from '../../workflow-parser/expressions/evaluate.ts'
import { ExpressionError, type Scope } from '../../workflow-parser/expressions/scope.ts'
import { splitTemplate } from '../../workflow-parser/expressions/template-parts.ts'
import type {
  Action,
  ActionProgram,
  ActionStep,
  CheckoutStep,
  OmittedStep,
  RunStep,
  SetupStep,
  Step,
  StorageStep,
  Template,
} from '../../workflow-parser/workflow.ts'

/** A step of a job with its number in the run; a step that uses a composite action has the action's steps instead. */
export type PlannedStep = PlannedCommand | PlannedProgram | PlannedAction
export type PlannedCommand = {
  kind: 'command'
  step: RunStep | CheckoutStep | OmittedStep | StorageStep | SetupStep
  number: number
  /** As it was reported. */
  name: string
}
/** A step that uses an action for Node.js. */
export type PlannedProgram = {
  kind: 'program'
  step: ActionStep
  action: Action
  program: ActionProgram
  /** Its `pre` program, as a step of its own. */
  pre: ReportedStep | undefined
  number: number
  name: string
}
/** A step as it was reported: its number in the run and its name. */
export type ReportedStep = { number: number; name: string }
export type PlannedAction = {
  kind: 'action'
  step: ActionStep
  action: Action
  steps: PlannedStep[]
}

/** Steps that cannot be planned; the message says why. */
class StepError extends Error {
  override readonly name = 'StepError'
}

type Options = {
  actions: ReadonlyMap<string, Action>
  /** The values that are known before the job starts. */
  scope: Scope
  masker: Masker
  /** Reports a step and returns its number. */
  announce: (name: string) => number
}

const maxDepth = 10
const maxSteps = 1000
const nameMaxLength = 100

/** Plans all steps of a job, including those of nested actions. Throws when there are too many, or an action is missing. */
export function planSteps(
  steps: readonly Step[],
  { actions, scope, masker, announce }: Options,
): PlannedStep[] {
  const numbered: (PlannedCommand | PlannedProgram)[] = []

  // An action does not see the workflow's inputs, and its own are only known when it starts.
  const { inputs: _, ...contexts } = scope.contexts
  const innerScope = { ...scope, contexts }

  function plan(step: Step, outer: readonly string[], depth: number): PlannedStep {
    const names = [...outer, stepNameOf(step, depth === 0 ? scope : innerScope, masker)]
    const unnumbered = { number: -1, name: joinNames(names) }
    if (step.kind !== 'action') return count({ kind: 'command', step, ...unnumbered })
    const action = actions.get(step.path)
    if (!action) throw new StepError(`There is no action in ./${step.path}.`)
    const { program } = action
    if (program)
      return count({ kind: 'program', step, action, program, pre: undefined, ...unnumbered })
    if (depth === maxDepth) {
      throw new StepError(`./${step.path} is nested more than ${maxDepth} actions deep.`)
    }
    const inner = action.steps.map((one) => plan(one, names, depth + 1))
    return { kind: 'action', step, action, steps: inner }
  }

  function count<Planned extends PlannedCommand | PlannedProgram>(planned: Planned): Planned {
    if (numbered.push(planned) <= maxSteps) return planned
    throw new StepError(`The job has more than ${maxSteps} steps, including those of its actions.`)
  }

  const planned = steps.map((step) => plan(step, [], 0))
  for (const one of numbered) {
    if (one.kind === 'command' || !one.program.pre) continue
    const name = `Pre ${one.name}`
    one.pre = { number: announce(name), name }
  }
  for (const one of numbered) one.number = announce(one.name)
  return planned
}

/** Lists the steps with numbers: a step itself, or those of its composite action. */
export function numberedSteps(planned: PlannedStep): (PlannedCommand | PlannedProgram)[] {
  return planned.kind === 'action' ? planned.steps.flatMap(numberedSteps) : [planned]
}

/** Lists the steps that run before the steps of the job. */
export function preStepsOf(
  steps: readonly PlannedStep[],
): { planned: PlannedProgram; pre: ReportedStep }[] {
  return steps.flatMap(numberedSteps).flatMap((planned) => {
    const pre = planned.kind === 'program' ? planned.pre : undefined
    return planned.kind === 'program' && pre ? [{ planned, pre }] : []
  })
}

/**
 * The masked name of a step: its `name`, or else the name that GitHub gives it. A name with expressions that are not
 * yet known stays as written.
 */
export function stepNameOf(step: Step, scope: Scope, { mask }: Masker): string {
  const own = step.name ? resolve(step.name, scope) : ''
  if (own.trim() !== '') return mask(own)
  if (step.kind === 'checkout') return 'Run actions/checkout'
  if (step.kind === 'omitted') return `Run ${step.action}`
  if (step.kind === 'action') return `Run ./${step.path}`
  if (step.kind === 'storage') return `Run actions/${step.action}`
  if (step.kind === 'setup') return `Run ${step.action}`
  const script = resolve(step.run, scope)
  return `Run ${maskAndShorten(script, { mask: (text) => firstLine(mask(text)), maxLength: nameMaxLength })}`
}

function firstLine(text: string): string {
  const lines = text.split('\n')
  return lines.find((line) => line.trim() !== '')?.trim() ?? ''
}

/** Joins the name of a step of an action to those of the steps that use it. */
export function joinNames(names: readonly string[]): string {
  return names.join(' / ')
}

const deferredNames = /\b(steps|job|runner|env|needs|inputs|matrix|secrets|hashFiles)\b/gi

function resolve(template: Template, scope: Scope): string {
  const expressions = splitTemplate(template.text).flatMap((part) =>
    part.kind === 'expression' ? [part.text] : [],
  )
  const known = new Set(Object.keys(scope.contexts))
  // Files can be hashed as soon as there is a workspace.
  if (known.has('runner')) known.add('hashfiles')
  const isLater = expressions.some((text) =>
    [...text.matchAll(deferredNames)].some(([name]) => !known.has(name.toLowerCase())),
  )
  if (isLater || expressions.length === 0) return template.text
  try {
    return evaluateText(template, scope)
  } catch (error) {
    if (error instanceof ExpressionError) return template.text
    throw error
  }
}
