import { maskAndShorten } from '../secret-masking/mask-and-shorten.ts'
import type { Masker } from '../secret-masking/masker.ts'
import { evaluateText } from '../workflow-parser/evaluate.ts'
import { ExpressionError } from '../workflow-parser/expression-error.ts'
import type { Scope } from '../workflow-parser/scope.ts'
import { splitTemplate } from '../workflow-parser/template-parts.ts'
import type {
  Action,
  ActionStep,
  CheckoutStep,
  OmittedStep,
  RunStep,
  Step,
  Template,
} from '../workflow-parser/workflow.ts'

/** A step of a job with its number in the run; a step that uses a composite action has the action's steps instead. */
export type PlannedStep = PlannedCommand | PlannedAction
export type PlannedCommand = {
  kind: 'command'
  step: RunStep | CheckoutStep | OmittedStep
  number: number
  /** As it was reported. */
  name: string
}
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
  let count = 0

  // An action does not see the workflow's inputs, and its own are only known when it starts.
  const { inputs: _, ...contexts } = scope.contexts
  const innerScope = { ...scope, contexts }

  function plan(step: Step, outer: readonly string[], depth: number): PlannedStep {
    const names = [...outer, nameOf(step, depth === 0 ? scope : innerScope, masker)]
    if (step.kind !== 'action') {
      if (++count > maxSteps) {
        throw new StepError(
          `The job has more than ${maxSteps} steps, including those of its actions.`,
        )
      }
      const name = joinNames(names)
      return { kind: 'command', step, number: announce(name), name }
    }
    const action = actions.get(step.path)
    if (!action) throw new StepError(`There is no composite action in ./${step.path}.`)
    if (depth === maxDepth) {
      throw new StepError(`./${step.path} is nested more than ${maxDepth} actions deep.`)
    }
    const inner = action.steps.map((one) => plan(one, names, depth + 1))
    return { kind: 'action', step, action, steps: inner }
  }

  return steps.map((step) => plan(step, [], 0))
}

/** Lists the commands of a step: itself, or those of its action. */
export function commandsOf(planned: PlannedStep): PlannedCommand[] {
  return planned.kind === 'command' ? [planned] : planned.steps.flatMap(commandsOf)
}

/**
 * The masked name of a step: its `name`, or else the name that GitHub gives it. A name with expressions that are not
 * yet known stays as written.
 */
export function nameOf(step: Step, scope: Scope, { mask }: Masker): string {
  const own = step.name ? resolve(step.name, scope) : ''
  if (own.trim() !== '') return mask(own)
  if (step.kind === 'checkout') return 'Run actions/checkout'
  if (step.kind === 'omitted') return `Run ${step.action}`
  if (step.kind === 'action') return `Run ./${step.path}`
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
