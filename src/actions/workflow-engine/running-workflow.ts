import { type HostRule, intersectRules } from '#base/outbound/host-rules.ts'
import { isSamePermissions, permissionsOf } from '../workflow-parser/job-permissions.ts'
import type { Job, JobPermissions, Workflow } from '../workflow-parser/workflow.ts'
import { type Contexts, listedSecrets, stepSecrets, workflowContexts } from './contexts.ts'
import type { JobIdentity, Plan } from './plan.ts'

/** A workflow that runs: a file of the run, or one that a job calls. */
export type RunningWorkflow = {
  workflow: Workflow
  /** The file of the run under which its jobs are reported. */
  file: Pick<Workflow, 'path' | 'name'>
  /** The jobs that call it, outermost first. */
  callers: readonly { id: string; name: string }[]
  /** The contexts that all its jobs share. */
  contexts: Contexts
  /** The secrets for its steps, and those that it passes on with `secrets: inherit`. */
  secrets: Record<string, string>
  inheritable: Record<string, string>
  /** The permissions of the calling job; undefined for a file of the run. */
  permissions: JobPermissions | undefined
  /** The hosts to which the jobs that call it are limited, if they are. */
  callerNetwork: readonly HostRule[] | undefined
}

export function openWorkflow(plan: Plan, workflow: Workflow): RunningWorkflow {
  return {
    workflow,
    file: workflow,
    callers: [],
    contexts: workflowContexts(plan, workflow),
    secrets: stepSecrets(plan, plan.secrets, workflow),
    inheritable: listedSecrets(plan.secrets, workflow),
    permissions: undefined,
    callerNetwork: undefined,
  }
}

/** The credentials of a job; undefined where a run has none. */
export function identityOf(
  { identities }: Plan,
  { file, workflow, permissions }: RunningWorkflow,
  job: Job,
): JobIdentity | undefined {
  const held = permissionsOf(workflow, job, permissions)
  return identities.find(
    (one) =>
      one.file === file.path &&
      one.jobFile === workflow.path &&
      isSamePermissions(one.permissions, held),
  )
}

/** The hosts that a job asks for: a called workflow gets no more than its caller has. Undefined for no limit. */
export function jobNetworkOf(
  { workflow, callerNetwork }: RunningWorkflow,
  job: Job,
): readonly HostRule[] | undefined {
  const own = job.network ?? workflow.network
  return own && callerNetwork ? intersectRules(own, callerNetwork) : (own ?? callerNetwork)
}

/** The id of a job in the run: `caller/job` in a workflow that a job calls. */
export function jobIdIn({ callers }: RunningWorkflow, id: string): string {
  return [...callers.map((caller) => caller.id), id].join('/')
}

/** The name of a job in the run: `caller / job` in a workflow that a job calls. */
export function jobNameIn({ callers }: RunningWorkflow, name: string): string {
  return [...callers.map((caller) => caller.name), name].join(' / ')
}
