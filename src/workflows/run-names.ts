import { maskAndShorten } from '../secret-masking/mask-and-shorten.ts'
import { evaluateText, evaluateTree } from '../workflow-parser/evaluate.ts'
import { ExpressionError } from '../workflow-parser/expression-fault.ts'
import type { Json, Scope } from '../workflow-parser/scope.ts'
import type { Template, TemplateTree, Workflow } from '../workflow-parser/workflow.ts'

/**
 * What workflows call a run, its concurrency groups, those of them whose running runs it ends, and the labels that
 * its runner must have, as far as they are known before it runs.
 */
export type RunNames = { names: string[]; groups: string[]; cancels: string[]; labels: string[] }

const groupMaxLength = 400

/**
 * Groups and labels are masked. The names are not: they are masked together. Groups that differ in secrets alone are one.
 * Throws an ExpressionFault.
 */
export function evaluateRunNames(
  workflows: Workflow[],
  scope: Scope,
  mask: (text: string) => string,
): RunNames {
  const names = workflows.map(({ name, runName }) =>
    runName ? evaluateText(runName, scope).trim() || name : name,
  )
  const groups = workflows.flatMap(({ concurrency }) => {
    const group = concurrency && evaluateText(concurrency.group, scope).trim()
    if (!concurrency || !group) return []
    // A secret in lower case would not be found any more.
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
        workflows.flatMap(({ jobs }) =>
          jobs.flatMap((job) => labelsOf(job.runsOn, scope).map(mask)),
        ),
      ),
    ],
  }
}

// What depends on a matrix or on other jobs is judged by the runner.
function labelsOf(runsOn: TemplateTree | undefined, scope: Scope): string[] {
  if (runsOn === undefined) return []
  try {
    const value: Json = evaluateTree(runsOn, scope)
    const labels = Array.isArray(value) ? value : [value]
    return labels
      .filter((label) => typeof label === 'string')
      .map((label) => label.trim())
      .filter(Boolean)
  } catch (error) {
    if (error instanceof ExpressionError) return []
    throw error
  }
}
