import { evaluateText } from '../workflow-parser/evaluate.ts'
import type { Scope } from '../workflow-parser/scope.ts'
import type { CheckoutStep } from '../workflow-parser/workflow.ts'
import { nameOfRef } from './contexts.ts'
import type { Plan } from './plan.ts'

/** Throws unless a step checks out the commit of the run, which the workspace has; the message says why not. */
export function assertCheckedOut(step: CheckoutStep, plan: Plan, scope: Scope): void {
  const { commit, ref, repository } = plan
  const asked = step.ref ? evaluateText(step.ref, scope).trim() : ''
  if (!['', commit, ref, nameOfRef(ref).name].includes(asked)) {
    throw new Error(`The workspace has the commit ${commit} of ${ref} only, not ${asked}.`)
  }
  const own = `${repository.owner}/${repository.name}`
  const named = step.repository ? evaluateText(step.repository, scope).trim() : ''
  if (named !== '' && named.toLowerCase() !== own.toLowerCase()) {
    throw new Error(`The workspace has the repository ${own} only, not ${named}.`)
  }
}
