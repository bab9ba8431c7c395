import type { Action, Step, Workflow } from './workflow.ts'

/** The folders of the actions that steps use, each once. */
export function usedActions(user: Workflow | Action): string[] {
  return [...new Set(stepsOf(user).flatMap((step) => (step.kind === 'action' ? step.path : [])))]
}

/** All steps of a workflow or an action. */
export function stepsOf(user: Workflow | Action): Step[] {
  return 'jobs' in user ? user.jobs.flatMap(({ steps }) => steps) : user.steps
}
