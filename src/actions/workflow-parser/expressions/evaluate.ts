import { data, Evaluator, type Expr, ExpressionEvaluationError } from '@actions/expressions'
import type { ContextAccess } from '@actions/expressions/ast'
import type { FunctionDefinition } from '@actions/expressions/funcs/info'
import { falsy } from '@actions/expressions/result'
import type { Json } from '#base/json.ts'
import type { Template, TemplateTree } from '../workflow.ts'
import { costOf, toData, toPlainJson } from './expression-data.ts'
import { createFunctions } from './expression-functions.ts'
import { expressionMessages } from './expression-messages.ts'
import { MalformedExpressionError, parseExpression } from './parse-expression.ts'
import {
  createEvaluationBudget,
  type EvaluationBudget,
  EvaluationError,
  ExpressionError,
  maxTextLength,
  requireShort,
  type Scope,
} from './scope.ts'
import { conditionOf, positionIn, splitTemplate } from './template-parts.ts'

/** Evaluates a text. As on GitHub, null becomes empty, and lists and objects become `Array` and `Object`. */
export function evaluateText(template: Template, scope: Scope): string {
  return textOf(template, createSession(scope))
}

/** Evaluates a text that is a single expression to its value, any other to a text. */
export function evaluateValue(template: Template, scope: Scope): Json {
  return jsonOf(template, createSession(scope))
}

/** Evaluates all texts of a tree. */
export function evaluateTree(tree: TemplateTree, scope: Scope): Json {
  return treeOf(tree, createSession(scope))
}

/** Evaluates an `if`. Without a status function, `success()` is implied. */
export function evaluateCondition(template: Template | undefined, scope: Scope): boolean {
  const condition = conditionOf(template?.text ?? '')
  if (template === undefined || condition.kind === 'none') return scope.status.success
  if (condition.kind !== 'expression') {
    const { message } =
      condition.kind === 'unclosed'
        ? expressionMessages.unclosed()
        : expressionMessages.surrounded()
    throw new ExpressionError(positionIn(template, condition.offset), message)
  }
  const { uses } = within(template, condition.offset, () => parseExpression(condition.text))
  const asksStatus = uses.some(({ kind, name }) => kind === 'function' && isStatus(name))
  if (!asksStatus && !scope.status.success) return false
  return !falsy(dataOf(template, condition, createSession(scope)))
}

function isStatus(name: string): boolean {
  return ['success', 'failure', 'cancelled', 'always'].includes(name.toLowerCase())
}

function treeOf(tree: TemplateTree, session: EvaluationSession): Json {
  if (tree === null || typeof tree !== 'object') return tree
  if (Array.isArray(tree)) return tree.map((item) => treeOf(item, session))
  if ('text' in tree) return jsonOf(tree, session)
  // `fromEntries` creates own properties, even for `__proto__`.
  return Object.fromEntries(
    Object.entries(tree.tree).map(([name, value]) => [name, treeOf(value, session)]),
  )
}

function jsonOf(template: Template, session: EvaluationSession): Json {
  const [part, more] = splitTemplate(template.text)
  if (more === undefined && part?.kind === 'expression') {
    return toPlainJson(dataOf(template, part, session))
  }
  return textOf(template, session)
}

function textOf(template: Template, session: EvaluationSession): string {
  const pieces: string[] = []
  let length = 0
  for (const part of splitTemplate(template.text)) {
    if (part.kind === 'unclosed') {
      throw new ExpressionError(
        positionIn(template, part.offset),
        expressionMessages.unclosed().message,
      )
    }
    const isLiteral = part.kind === 'text'
    const piece = isLiteral ? part.text : dataOf(template, part, session).coerceString()
    length += piece.length
    if (!isLiteral && length > maxTextLength) {
      const message = 'The text with the values of its expressions is larger than 1 MiB.'
      throw new ExpressionError(positionIn(template, part.offset), message)
    }
    pieces.push(piece)
  }
  return pieces.join('')
}

function dataOf(
  template: Template,
  { text, offset }: { text: string; offset: number },
  session: EvaluationSession,
): data.ExpressionData {
  return within(template, offset, () =>
    new BoundedEvaluator(parseExpression(text).tree, session).evaluate(),
  )
}

/** Adds the position in the file to faults of an expression. */
function within<T>(template: Template, offset: number, work: () => T): T {
  try {
    return work()
  } catch (fault) {
    if (fault instanceof MalformedExpressionError) {
      const position = positionIn(template, offset + fault.offset)
      throw new ExpressionError(position, `${fault.message} ${fault.instead}`, { cause: fault })
    }
    const reason = reasonOf(fault)
    if (reason === undefined) throw fault
    throw new ExpressionError(positionIn(template, offset), reason, { cause: fault })
  }
}

/** The message of a fault in the expression; undefined for a bug in this program. */
function reasonOf(fault: unknown): string | undefined {
  if (!(fault instanceof Error)) return undefined
  if (fault instanceof EvaluationError) return fault.message
  // The library wraps errors of index expressions.
  if (fault.cause !== undefined) return reasonOf(fault.cause)
  const isOfLibrary = fault.constructor === Error || fault instanceof ExpressionEvaluationError
  return isOfLibrary ? `The expression has no value: ${fault.message}.` : undefined
}

/** The state that the expressions of one text or tree share: a budget, and contexts that are converted once. */
type EvaluationSession = {
  budget: EvaluationBudget
  functions: Map<string, FunctionDefinition>
  /** A context by its name in lower case; null when there is none. */
  context: (name: string) => data.ExpressionData
}

export function createSession(scope: Scope): EvaluationSession {
  const budget = scope.budget ?? createEvaluationBudget()
  const contexts = new Map<string, data.ExpressionData>()
  return {
    budget,
    functions: createFunctions(scope, budget),
    context(name) {
      const value = contexts.get(name) ?? translate(name)
      contexts.set(name, value)
      return value
    },
  }

  function translate(name: string): data.ExpressionData {
    if (!Object.hasOwn(scope.contexts, name)) return new data.Null()
    // As on GitHub's Linux runners, where variable names are case-sensitive.
    return toData(scope.contexts[name] ?? null, budget, { exact: name === 'env' })
  }
}

/** Each operator in a chain is a level of the tree, and chains have no other limit. */
const maxDepth = 250

/** The cost of a step of the evaluation itself. */
const stepCost = 8

/** Evaluates an expression within the session's budget. */
export class BoundedEvaluator extends Evaluator {
  readonly #session: EvaluationSession
  #depth = 0

  constructor(tree: Expr, session: EvaluationSession) {
    super(tree, new data.Dictionary(), session.functions)
    this.#session = session
    session.budget.startExpression()
  }

  protected override eval(node: Expr): data.ExpressionData {
    if (this.#depth === maxDepth) throw new EvaluationError('The expression is nested too deeply.')
    this.#depth++
    const value = super.eval(node)
    this.#depth--
    // Every consumer reads the whole value, so its cost is charged here.
    if (value instanceof data.StringData) requireShort(value.value.length)
    this.#session.budget.spend(costOf(value) + stepCost)
    return value
  }

  override visitContextAccess(access: ContextAccess): data.ExpressionData {
    return this.#session.context(access.name.lexeme.toLowerCase())
  }
}
