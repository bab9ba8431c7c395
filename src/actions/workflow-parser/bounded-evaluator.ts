import { data, Evaluator, type Expr } from '@actions/expressions'
import type { ContextAccess } from '@actions/expressions/ast'
import type { FunctionDefinition } from '@actions/expressions/funcs/info'
import {
  createEvaluationBudget,
  type EvaluationBudget,
  EvaluationError,
  requireShort,
} from './evaluation-budget.ts'
import { costOf, toData } from './expression-data.ts'
import { createFunctions } from './expression-functions.ts'
import type { Scope } from './scope.ts'

/** The state that the expressions of one text or tree share: a budget, and contexts that are converted once. */
export type EvaluationSession = {
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
