import { maskAndShorten } from '#actions/secret-masking/mask-and-shorten.ts'
import { evaluateText, evaluateTree } from '#actions/workflow-parser/expressions/evaluate.ts'
import {
  createEvaluationBudget,
  ExpressionError,
  type Scope,
} from '#actions/workflow-parser/expressions/scope.ts'
import type { Template, TemplateTree } from '#actions/workflow-parser/workflow.ts'
import type { Json } from '#base/json.ts'
import type { Sources } from '../commits/workflow-sources.ts'

/**
 * The names that workflows give a run, its concurrency groups, those of them with `cancel-in-progress`, and the labels
 * that its runner must have, as far as they are known before it runs.
 */
export type RunNames = { names: string[]; groups: string[]; cancels: string[]; labels: string[] }

const groupMaxLength = 400

/**
 * Evaluates the names of a run. Groups and labels are masked, so groups that differ only in secrets are the same. The
 * names are not masked: the caller masks them joined. Throws an ExpressionError.
 */
export function evaluateRunNames(
  { workflows, calledWorkflows }: Pick<Sources, 'workflows' | 'calledWorkflows'>,
  given: Scope,
  mask: (text: string) => string,
): RunNames {
  // All of them together, because this is on the event loop of the server.
  const scope = { ...given, budget: createEvaluationBudget() }
  const names = workflows.map(({ name, runName }) =>
    runName ? evaluateText(runName, scope).trim() || name : name,
  )
  const groups = workflows.flatMap(({ concurrency }) => {
    const group = concurrency && evaluateText(concurrency.group, scope).trim()
    if (!concurrency || !group) return []
    // Masked first: a secret in lower case would not be recognized.
    const name = maskAndShorten(group, { mask, maxLength: groupMaxLength }).toLowerCase()
    return [{ name, ...concurrency }]
  })
  const isTrue = (value: Template | boolean) =>
    typeof value === 'boolean' ? value : evaluateText(value, scope) === 'true'
  return {
    names,
    groups: [...new Set(groups.map(({ name }) => name))],
    cancels: groups
      .filter(({ cancelInProgress }) => isTrue(cancelInProgress))
      .map(({ name }) => name),
    labels: [
      ...new Set(
        [...workflows, ...calledWorkflows].flatMap(({ jobs }) =>
          jobs
            .filter(({ unsupported }) => unsupported.length === 0)
            .flatMap((job) => labelsOf(job.runsOn, scope).map(mask)),
        ),
      ),
    ],
  }
}

// The runner evaluates labels that depend on a matrix or on other jobs.
function labelsOf(runsOn: TemplateTree | undefined, scope: Scope): string[] {
  if (runsOn === undefined) return []
  try {
    const value: Json = evaluateTree(runsOn, scope)
    const labels = Array.isArray(value) ? value : [value]
    return labels
      .filter((label) => typeof label !== 'object')
      .map((label) => String(label).trim())
      .filter(Boolean)
  } catch (error) {
    if (error instanceof ExpressionError) return []
    throw error
  }
}
