import type { Expr } from '@actions/expressions'
import {
  Binary,
  ContextAccess,
  FunctionCall,
  Grouping,
  IndexAccess,
  Literal,
  Logical,
  Unary,
} from '@actions/expressions/ast'
import { TokenType } from '@actions/expressions/lexer'
import { falsy } from '@actions/expressions/result'
import type { Json } from '#base/json.ts'
import type { Template } from '../workflow.ts'
import { BoundedEvaluator, createSession } from './evaluate.ts'
import { parseExpression } from './parse-expression.ts'
import { conditionOf } from './template-parts.ts'

/** A key of the matrix that gives jobs their label, as in `runs-on: ${{ matrix.os }}`, and its values that runners have. */
export type MatrixLabels = { name: string; labels: string[] }

const events = ['push', 'pull_request', 'merge_group', 'workflow_dispatch', 'schedule']
const maxLabels = 20
const maxDepth = 200

/**
 * Whether the `if` of a step holds in no job that runs, because it asks for another system or for an event that never
 * happens here.
 */
export function isNeverTrue(
  condition: Template | undefined,
  matrix: MatrixLabels | undefined,
): boolean {
  const part = conditionOf(condition?.text ?? '')
  if (part.kind !== 'expression') return false
  const known = matrix && matrix.labels.length <= maxLabels ? matrix : undefined
  try {
    return !canHold(parseExpression(part.text).tree, scopesOf(known), known?.name)
  } catch {
    // Faults of the expression are reported where it is read.
    return false
  }
}

type Contexts = Record<string, Json>

/** All combinations of the contexts whose values are known before the run. */
function scopesOf(matrix: MatrixLabels | undefined): Contexts[] {
  const labels = matrix ? matrix.labels.map((label) => ({ [matrix.name]: label })) : [null]
  return events.flatMap((event) =>
    labels.map((values) => ({
      runner: { os: 'Linux' },
      github: { event_name: event },
      matrix: values,
    })),
  )
}

function canHold(node: Expr, scopes: Contexts[], label: string | undefined): boolean {
  if (node instanceof Grouping) return canHold(node.group, scopes, label)
  if (node instanceof Logical) {
    const parts = node.args.map((part) => canHold(part, scopes, label))
    return node.operator.type === TokenType.AND ? parts.every(Boolean) : parts.includes(true)
  }
  if (!isKnown(node, label, 0)) return true
  return scopes.some((contexts) => {
    const scope = { contexts, status: noStatus, hashFiles: () => '' }
    return !falsy(new BoundedEvaluator(node, createSession(scope)).evaluate())
  })
}

const noStatus = { success: false, failure: false, cancelled: false }
const functions = ['contains', 'startswith', 'endswith', 'format', 'fromjson', 'join', 'tojson']

/** Whether an expression depends only on literals and on the contexts of `scopesOf`. */
function isKnown(node: Expr, label: string | undefined, depth: number): boolean {
  const isPartKnown = (part: Expr) => isKnown(part, label, depth + 1)
  if (depth > maxDepth) return false
  if (node instanceof Literal) return true
  if (node instanceof Grouping) return isPartKnown(node.group)
  if (node instanceof Unary) return isPartKnown(node.expr)
  if (node instanceof Binary) return isPartKnown(node.left) && isPartKnown(node.right)
  if (node instanceof Logical) return node.args.every(isPartKnown)
  if (node instanceof FunctionCall)
    return (
      functions.includes(node.functionName.lexeme.toLowerCase()) && node.args.every(isPartKnown)
    )
  if (!(node instanceof IndexAccess && node.expr instanceof ContextAccess)) return false
  if (!(node.index instanceof Literal)) return false
  const path = `${node.expr.name.lexeme}.${node.index.literal.coerceString()}`.toLowerCase()
  return [
    'runner.os',
    'github.event_name',
    ...(label === undefined ? [] : [`matrix.${label}`.toLowerCase()]),
  ].includes(path)
}
