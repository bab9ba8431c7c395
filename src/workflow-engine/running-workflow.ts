import type { Workflow } from '../workflow-parser/workflow.ts'
import { allowedSecrets, type Contexts, workflowContexts } from './contexts.ts'
import type { Plan } from './plan.ts'

/** A workflow that runs: a file of the run, or one that a job calls. */
export type RunningWorkflow = {
  workflow: Workflow
  /** The file of the run under which its jobs are reported. */
  file: Pick<Workflow, 'path' | 'name'>
  /** The jobs that call it, outermost first. */
  callers: readonly { id: string; name: string }[]
  /** The contexts that all its jobs share. */
  contexts: Contexts
  /** The secrets for its steps. */
  secrets: Record<string, string>
}

export function openFile(plan: Plan, workflow: Workflow): RunningWorkflow {
  return {
    workflow,
    file: workflow,
    callers: [],
    contexts: workflowContexts(plan, workflow),
    secrets: allowedSecrets(plan.secrets, workflow),
  }
}

/** The id of a job in the run: `caller/job` in a workflow that a job calls. */
export function jobIdIn({ callers }: RunningWorkflow, id: string): string {
  return [...callers.map((caller) => caller.id), id].join('/')
}

/** The name of a job in the run: `caller / job` in a workflow that a job calls. */
export function jobNameIn({ callers }: RunningWorkflow, name: string): string {
  return [...callers.map((caller) => caller.name), name].join(' / ')
}
