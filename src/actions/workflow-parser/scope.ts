import type { Json } from '#base/json.ts'
import type { EvaluationBudget } from './evaluation-budget.ts'

/** The scope in which an expression is evaluated. */
export type Scope = {
  /** Contexts by name, such as `github`. A missing one is null. */
  contexts: Record<string, Json>
  /** The values of `success()`, `failure()` and `cancelled()`. */
  status: { success: boolean; failure: boolean; cancelled: boolean }
  /** The SHA-256, in hex, over the matching files of the workspace; empty when none match. */
  hashFiles: (patterns: string[]) => string
  /** Limits the cost of all expressions that are evaluated with it; by default, of those of a text or tree. */
  budget?: EvaluationBudget
}
